"""`wordcount.py`: every count is right, on any number of workers, and a wrong one is told."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.examples.program import EXAMPLES, example
from tests.processes import end, free_ports, run, run_together, started

ALICE = [
    "text             alice.txt, 2 times",
    "words                  53,358",
    "distinct words          2,633",
    "differences                 0   (against a plain collections.Counter)",
    "top words        the 3,282  and 1,744  to 1,458  a 1,264  she 1,080  it 1,060  of 1,026  said 924",
]


def counted(lines: list[str]) -> list[str]:
    """The lines that do not depend on how and how fast it ran."""
    varying = ("workers ", "epochs ", "bins moved ", "seconds ", "words/s ")
    assert [line[:11].strip() + " " for line in lines if line.startswith(varying)] == list(varying)
    return [line for line in lines if not line.startswith(varying)]


@pytest.mark.parametrize(("flags", "moved"), [((), 0), (("-n", "2"), 8), (("-n", "3"), 16)])
def test_bins_move_while_it_counts(flags: tuple[str, ...], moved: int, tmp_path: Path):
    """Moves at epochs 5 and 15 of 22; none of them is left out, and a bin that is where it should be does not move."""
    arguments = ("--rounds", "2", "--epoch-lines", "330")
    lines = run(*example("wordcount.py", *arguments, *flags), state=tmp_path).lines
    assert counted(lines) == ALICE
    assert f"bins moved       {moved:>12,}" in lines


@pytest.mark.parametrize("flags", [(), ("-n", "2"), ("-w", "3"), ("-n", "2", "-w", "2", "--epoch-lines", "7")])
def test_alice_is_counted_right(flags: tuple[str, ...], tmp_path: Path):
    assert counted(run(*example("wordcount.py", "--rounds", "2", *flags), state=tmp_path).lines) == ALICE


def test_separate_terminals_count_together_and_worker_0_tells(tmp_path: Path):
    port = str(free_ports(3))
    first, *others = run_together(
        [
            example("wordcount.py", "--rounds", "2", "-n3", "-p", str(process), "--base-port", port)
            for process in range(3)
        ],
        state=tmp_path,
    )
    assert counted(first.lines) == ALICE
    assert [other.lines for other in others] == [[], []]


def test_workers_join_and_one_leaves_while_it_counts(tmp_path: Path):
    """The two that come later take their share of the bins; one of them is gone when the counts are gathered."""
    port = str(free_ports(4))

    def command(process: int, *flags: str) -> tuple[str | Path, ...]:
        arguments = ("--rounds", "14", "--epoch-lines", "60", "-n2", "-p", str(process), "--base-port", port)
        return example("wordcount.py", *arguments, *flags)

    with (
        started(command(0), tmp_path) as first,
        started(command(1), tmp_path) as second,
        started(command(2, "--join", "0", "--nn", "3"), tmp_path) as leaves,
    ):
        assert leaves.stderr is not None
        assert leaves.stderr.readline().startswith("hailer: worker 2 is in after ")
        with started(command(3, "--join", "1", "--nn", "4"), tmp_path) as stays:
            leaves.send_signal(signal.SIGTERM)
            ended = [end(process) for process in (leaves, stays, first, second)]
    assert [one.code for one in ended] == [0, 0, 0, 0], ended
    lines = ended[2].out.splitlines()
    assert counted(lines)[1:4] == [
        "words                 373,506",
        "distinct words          2,633",
        "differences                 0   (against a plain collections.Counter)",
    ]
    told = [(who, line) for who in (2, 3) for line in ended[who].err.splitlines() if " has " in line]
    assert sorted(told) == [
        (2, "hailer: worker 2 has joined"),
        (2, "hailer: worker 2 has left"),
        (3, "hailer: worker 3 has joined"),
    ]
    assert [one.out for one in ended if one is not ended[2]] == ["", "", ""]


def test_a_text_of_ones_own(tmp_path: Path):
    book = tmp_path / "book.txt"
    book.write_text("Über den Wolken über\ndon't 'quote' DON'T\n\n42 wolken", encoding="utf-8")
    lines = run(*example("wordcount.py", "-n", "2", book), state=tmp_path).lines
    assert lines[0] == "text             book.txt, 1 time"
    assert lines[-1] == "top words        don't 2  wolken 2  über 2  den 1  quote 1"


def test_an_empty_text(tmp_path: Path):
    (tmp_path / "empty.txt").touch()
    assert counted(run(*example("wordcount.py", tmp_path / "empty.txt", "-w2"), state=tmp_path).lines)[1:] == [
        "words                       0",
        "distinct words              0",
        "differences                 0   (against a plain collections.Counter)",
        "top words        ",
    ]


def test_a_wrong_count_ends_with_a_report_and_exit_code_1(tmp_path: Path):
    forgetful = (
        (EXAMPLES / "wordcount.py").read_text(encoding="utf-8").replace("total += n", 'total += word != "alice"')
    )
    program = tmp_path / "forgetful.py"
    program.write_text(forgetful.replace("Path(__file__).parent", f"Path({str(EXAMPLES)!r})"), encoding="utf-8")
    outcome = run(*example("wordcount.py")[:1], program, "-n2", "--rounds", "1", state=tmp_path)
    assert outcome.code == 1
    assert "differences                 1" in outcome.out
    assert "CountsDiffer: 1 counts differ, such as that of 'alice': 0, not 386" in outcome.err


def test_what_is_not_there_is_said_before_anything_starts(tmp_path: Path):
    outcome = run(*example("wordcount.py", "-n", "2", "nothing.txt"), state=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("wordcount.py: error: there is no file nothing.txt\n")
