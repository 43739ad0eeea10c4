"""`join.py`: every pair is right, on any number of workers, while bins move; and a wrong one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.program import EXAMPLES, example
from tests.processes import run


@pytest.mark.parametrize("flags", [(), ("-n", "2"), ("-w", "3"), ("-n", "2", "-w", "2")])
def test_pairs_are_the_same_on_any_number_of_workers(flags: tuple[str, ...], tmp_path: Path):
    lines = run(*example("join.py", "--epochs", "20", *flags), state=tmp_path).lines
    assert [line for line in lines if not line.startswith("workers ")] == [
        "orders                400",
        "paid                  246",
        "not paid in time      173",
        "differences             0   (against two plain loops)",
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("within=WITHIN_EPOCHS,", "within=WITHIN_EPOCHS + 1,", "PairsDiffer: "),
        ("within=WITHIN_EPOCHS,", "within=WITHIN_EPOCHS + (control is None),", "StreamsDiffer"),
    ],
)
def test_a_wrong_pair_ends_the_job(right: str, wrong: str, says: str, tmp_path: Path):
    text = (EXAMPLES / "join.py").read_text(encoding="utf-8")
    assert right in text
    program = tmp_path / "wrong.py"
    program.write_text(text.replace(right, wrong), encoding="utf-8")
    outcome = run(*example("join.py")[:1], program, "-n2", "--epochs", "20", state=tmp_path)
    assert outcome.code == 1
    assert says in outcome.err
