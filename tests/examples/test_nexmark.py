"""`examples.nexmark.run`: all queries give the oracle's answers while their bins move, and a wrong one is told."""

from __future__ import annotations

import sys
from pathlib import Path

from examples.nexmark import columns, oracle
from examples.nexmark.generator import Generator
from examples.nexmark.queries import QUERIES
from examples.nexmark.semantics import Settings
from tests.processes import Ended, run


def nexmark(*arguments: str, state: Path) -> Ended:
    return run(sys.executable, "-m", "examples.nexmark.run", *arguments, state=state)


def table(outcome: Ended) -> dict[str, dict[str, str]]:
    """The printed table: by query, each column by its name."""
    head, *lines = [line.split() for line in outcome.out.splitlines()]
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def test_two_processes_answer_all_queries_while_bins_move(tmp_path: Path):
    outcome = nexmark("-n2", "--events", "6000", "--epoch-ms", "500", "--bins", "16", "--seed", "5", state=tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = table(outcome)
    events = Generator(seed=5).events(0, 6000)
    answers = {query: getattr(oracle, query)(events, Settings(epoch_ms=500)) for query in QUERIES}
    rows = {query: f"{sum(map(len, answer.values())):,}" for query, answer in answers.items()}
    assert {query: line["rows"] for query, line in lines.items()} == rows
    assert {query: line["differences"] for query, line in lines.items()} == dict.fromkeys(QUERIES, "0")
    # Of 16 bins, 3, 13, 8, 8 and 8 move at five times; q4 to q7 have two operators.
    moved = {"q1": "0", "q2": "0", "q3": "40", "q4": "80", "q5": "80", "q6": "80", "q7": "80", "q8": "40"}
    assert {query: line["moved"] for query, line in lines.items()} == moved


def test_two_processes_answer_on_columns_while_bins_move(tmp_path: Path):
    options = ["--columns", "--events", "6000", "--epoch-ms", "500", "--bins", "16", "--seed", "5"]
    outcome = nexmark("-n2", *options, state=tmp_path)
    assert outcome.code == 0, outcome.err
    lines = table(outcome)
    assert {query: line["differences"] for query, line in lines.items()} == dict.fromkeys(columns.QUERIES, "0")
    moved = {"q1": "0", "q2": "0", "q4": "80", "q5": "80", "q7": "80"}
    assert {query: line["moved"] for query, line in lines.items()} == moved


def test_one_worker_has_nowhere_to_move_bins_to(tmp_path: Path):
    [line] = table(nexmark("--query", "q5", "--events", "2000", state=tmp_path)).values()
    assert (line["query"], line["epochs"], line["moved"], line["differences"]) == ("q5", "8", "0", "0")


def test_a_wrong_answer_ends_with_a_report_and_exit_code_1(tmp_path: Path):
    forgetful = (
        "import runpy; from examples.nexmark.queries import QUERIES, q7;"
        "QUERIES['q7'] = lambda *of: q7(*of).filter(lambda row: row.window_end != 2000);"
        "runpy.run_module('examples.nexmark.run', run_name='__main__')"
    )
    outcome = run(sys.executable, "-c", forgetful, "-n2", "--query", "q7", "--events", "4000", state=tmp_path)
    assert outcome.code == 1
    assert table(outcome)["q7"]["differences"] == "1"
    assert "AnswersDiffer: 1 rows differ from the oracle's" in outcome.err


def test_what_cannot_be_is_said_before_anything_starts(tmp_path: Path):
    outcome = nexmark("-n2", "--query", "q9", state=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "invalid choice: 'q9'" in outcome.err
    outcome = nexmark("-n2", "--columns", "--query", "q3", state=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("error: q3 is not on columns; q1, q2, q4, q5, q7 are\n")
    outcome = nexmark("-n2", "--events", "0", state=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith("error: --events, --rate and --epoch-ms are at least 1\n")
