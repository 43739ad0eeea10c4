"""`windows.py`: every window is right, on any number of workers, while bins move; and a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.program import EXAMPLES, example
from tests.processes import run

FOUND = [
    "rides                 600",
    "tumbling               29   (96 results were early, 28 corrected; 80 rides were too late)",
    "sliding                87   (0 results were early, 74 corrected; 98 rides were too late)",
    "sessions               48   (0 results were early, 0 corrected; 118 rides were too late)",
    "differences             0   (against a plain loop)",
]


def counted(lines: list[str]) -> list[str]:
    """The lines that do not depend on the number of workers."""
    assert [line.split()[0] for line in lines] == "rides workers tumbling sliding sessions differences".split()
    return [line for line in lines if not line.startswith("workers ")]


def test_windows_are_the_same_on_any_number_of_workers(tmp_path: Path):
    runs = [
        counted(run(*example("windows.py", "--minutes", "30", *flags), state=tmp_path).lines)
        for flags in ((), ("-n", "2"), ("-n", "2", "-w", "2"))
    ]
    assert runs == [FOUND] * 3


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("tumbling_window(counting(), ", "tumbling_window(reducing(add, of=lambda _: 2), ", "WindowsDiffer: "),
        ('"lateness": 2 * MINUTE_S', '"lateness": (2 + (control is None)) * MINUTE_S', "StreamsDiffer"),
    ],
)
def test_a_wrong_result_ends_the_job(right: str, wrong: str, says: str, tmp_path: Path):
    text = (EXAMPLES / "windows.py").read_text(encoding="utf-8")
    assert right in text
    program = tmp_path / "wrong.py"
    program.write_text(text.replace(right, wrong), encoding="utf-8")
    outcome = run(*example("windows.py")[:1], program, "-n2", "--minutes", "30", state=tmp_path)
    assert outcome.code == 1
    assert says in outcome.err


def test_no_minutes_at_all(tmp_path: Path):
    outcome = run(*example("windows.py", "--minutes", "0"), state=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("windows.py: error: --minutes is at least 1\n")
