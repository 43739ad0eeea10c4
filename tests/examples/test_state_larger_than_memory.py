"""`state_larger_than_memory.py`: every result is right, and memory stays within the budget."""

from __future__ import annotations

import re
from pathlib import Path

from tests.examples.program import EXAMPLES, example
from tests.processes import run


def figures(lines: list[str]) -> dict[str, float]:
    """The numbers of the table, by the words before them."""
    found = (re.match(r"(\S.*?)\s{2,}([\d.,]+)", line) for line in lines)
    return {match[1]: float(match[2].replace(",", "")) for match in found if match}


def test_four_times_as_much_state_as_memory(tmp_path: Path):
    lines = run(*example("state_larger_than_memory.py", "--directory", tmp_path), state=tmp_path).lines
    table = figures(lines)
    assert list(table) == ["keys", "results", "state", "on disk", "memory budget", "memory growth", "keys/s"]
    assert (table["keys"], lines[1]) == (50_000, "results               100,000   (0 wrong)")
    assert table["state"] >= 4 * table["memory budget"]
    assert table["on disk"] >= 4 * table["memory budget"]
    assert table["memory growth"] <= table["memory budget"]
    assert list(tmp_path.glob("store-*")) == []


def test_columns_beyond_the_share_of_their_table(tmp_path: Path):
    arguments = ("--columns", "--sensors", "150000", "--directory", tmp_path)
    lines = run(*example("state_larger_than_memory.py", *arguments), state=tmp_path).lines
    table = figures(lines)
    assert (table["keys"], lines[1]) == (150_000, "results               300,000   (0 wrong)")
    assert table["on disk"] >= table["memory budget"] / 4
    assert table["memory growth"] <= table["memory budget"]
    assert list(tmp_path.glob("store-*")) == []


def test_columns_on_several_workers(tmp_path: Path):
    arguments = ("--columns", "--sensors", "60000", "-w2")
    lines = run(*example("state_larger_than_memory.py", *arguments), state=tmp_path).lines
    assert lines[1] == "results               120,000   (0 wrong)"


def test_on_several_workers(tmp_path: Path):
    lines = run(*example("state_larger_than_memory.py", "--sensors", "5000", "-n2", "-w2"), state=tmp_path).lines
    assert lines[1] == "results                10,000   (0 wrong)"


def test_a_state_that_was_lost_ends_with_a_report_and_exit_code_1(tmp_path: Path):
    source = (EXAMPLES / "state_larger_than_memory.py").read_text(encoding="utf-8")
    program = tmp_path / "forgetful.py"
    program.write_text(source.replace("readings += reading", "readings += reading[::-1]"), encoding="utf-8")
    outcome = run(*example("hello.py")[:1], program, "--sensors", "100", state=tmp_path)
    assert outcome.code == 1
    assert "ResultsDiffer: 0 results are right and 200 wrong, of 200" in outcome.err
