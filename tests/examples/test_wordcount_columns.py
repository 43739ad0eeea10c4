"""`wordcount_columns.py`: what `wordcount_job.py` gives, epoch by epoch."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.examples.program import EXAMPLES, example
from tests.processes import run

ALICE = EXAMPLES / "data" / "alice.txt"
HAILER = Path(sys.executable).with_name("hailer")
FLAGS = ("--epoch-lines", "50", "--input", f"lines={ALICE}")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_every_epoch_is_that_of_rows(processes: str, tmp_path: Path):
    rows, columns = (
        run(HAILER, "run", EXAMPLES / name, "-n", processes, *FLAGS, state=tmp_path).lines
        for name in ("wordcount_job.py", "wordcount_columns.py")
    )
    assert Counter(columns) == Counter(rows)
    assert len({line.split("\t")[1] for line in columns}) > 1


def test_the_program_prints_the_same(tmp_path: Path):
    lines = run(*example("wordcount_columns.py", *FLAGS), state=tmp_path).lines
    assert Counter(lines) == Counter(run(*example("wordcount_job.py", *FLAGS), state=tmp_path).lines)
