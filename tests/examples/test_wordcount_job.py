"""`wordcount_job.py`: the job level, from `hailer run` and as a program."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.examples.program import EXAMPLES, example
from tests.processes import run

ALICE = EXAMPLES / "data" / "alice.txt"
JOB = EXAMPLES / "wordcount_job.py"
HAILER = Path(sys.executable).with_name("hailer")
EXPECTED = Counter(ALICE.read_text(encoding="utf-8").split())


def last_counts(changes: list[tuple[str, int]]) -> dict[str, int]:
    """What each word was counted to; the counts of a word only grow."""
    counts: dict[str, int] = {}
    for word, total in changes:
        counts[word] = max(total, counts.get(word, 0))
    return counts


@pytest.mark.parametrize("flags", [(), ("-n", "2"), ("-w", "2", "--epoch-lines", "100")])
def test_hailer_run_prints_every_change(flags: tuple[str, ...], tmp_path: Path):
    lines = run(HAILER, "run", JOB, "--input", f"lines={ALICE}", *flags, state=tmp_path).lines
    changes = [tuple(json.loads(line.split("\t")[2])) for line in lines]
    assert last_counts(changes) == EXPECTED
    assert len(changes) == EXPECTED.total()


def test_two_processes_print_their_words(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("tea milk\ntea\n")
    lines = run(HAILER, "run", JOB, "-n2", "--input", f"lines={text}", state=tmp_path).lines
    assert sorted(lines) == ['counts\t0\t["milk", 1]', 'counts\t0\t["tea", 1]', 'counts\t0\t["tea", 2]']


def test_the_program_writes_files_of_each_worker(tmp_path: Path):
    out = tmp_path / "out"
    flags = ("-n2", "--input", f"lines={ALICE}", "--output", f"counts={out}")
    assert run(*example("wordcount_job.py", *flags), state=tmp_path).lines == []
    files = sorted(out.glob("*.jsonl"))
    assert {file.stem.split("-")[-1] for file in files} == {"w0", "w1"}
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    changes = [tuple(json.loads(line)["record"]) for line in lines]
    assert last_counts(changes) == EXPECTED
