"""`capture_replay.py`: what some workers captured, any other number replays with the same result."""

from __future__ import annotations

from pathlib import Path

from tests.examples.program import example
from tests.processes import free_ports, run, run_together

EXPECTED = [
    "epoch 0: attic 992, cellar 975, kitchen 996",
    "epoch 1: attic 888, cellar 975, kitchen 974",
    "epoch 2: attic 999, cellar 954, kitchen 982",
    "epoch 3: attic 975, cellar 825, kitchen 947",
]


def test_other_numbers_of_workers_replay_the_same(tmp_path: Path):
    captured = tmp_path / "readings"
    assert run(*example("capture_replay.py", "capture", captured, "-n", "3"), state=tmp_path).lines == EXPECTED
    assert sorted(file.name for file in captured.iterdir()) == [f"{part}-of-3.capture" for part in range(3)]
    for flags in (), ("-w", "2"), ("-n", "4"):
        replayed = run(*example("capture_replay.py", "replay", captured, *flags), state=tmp_path)
        assert replayed.lines == EXPECTED, flags


def test_separate_terminals(tmp_path: Path):
    port = ("--base-port", str(free_ports(2)))
    for mode in "capture", "replay":
        first, second = run_together(
            [
                example("capture_replay.py", mode, tmp_path / "readings", "-n2", "-p", str(process), *port)
                for process in (0, 1)
            ],
            state=tmp_path,
        )
        assert (first.lines, second.lines) == (EXPECTED, []), mode


def test_an_incomplete_capture_is_refused(tmp_path: Path):
    captured = tmp_path / "readings"
    run(*example("capture_replay.py", "capture", captured, "-w", "2"), state=tmp_path)
    (captured / "1-of-2.capture").unlink()
    outcome = run(*example("capture_replay.py", "replay", captured), state=tmp_path)
    assert outcome.code == 2
    assert outcome.err.endswith("does not hold the files of one capture, but ['0-of-2.capture']\n")
