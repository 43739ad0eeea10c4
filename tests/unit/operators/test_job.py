"""Jobs: names at the ends of a dataflow, and the ways to run them (`job`, `flow`, `drive`, `job_files`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import ConfigError, DuplicateName, GraphError, OperatorFailed
from operators import Flow, Job
from operators.drive import epochs
from operators.job_files import lines


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def wordcount() -> Job:
    job = Job("wordcount")

    @job.dataflow
    def build(flow: Flow) -> None:
        words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        flow.output("counts", words.state_machine(count, initial=0))
        flow.output("words", words.map(lambda pair: pair[0]))

    return job


@pytest.mark.parametrize("threads", [1, 3])
def test_run_collects_every_output_by_epoch(threads: int):
    outputs = wordcount().run({"lines": ["a b", "a", "b a"]}, threads=threads, epoch_records=1)
    assert {name: sorted(rows) for name, rows in outputs.items()} == {
        "counts": [(0, ("a", 1)), (0, ("b", 1)), (1, ("a", 2)), (2, ("a", 3)), (2, ("b", 2))],
        "words": [(0, "a"), (0, "b"), (1, "a"), (2, "a"), (2, "b")],
    }


def test_an_endless_source_is_not_read_ahead_of_the_outputs():
    """The source counts how far it was read while the output lags: at most the allowed epochs, and a little."""
    read, lag = 0, []

    def source():
        nonlocal read
        while read < 1000:
            yield read
            read += 1

    job = Job("lagging")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("out", flow.input("in").inspect(lambda number: lag.append(read - number)))

    assert len(job.run({"in": source()}, epoch_records=1)["out"]) == 1000
    assert max(lag) <= 18


def test_names_are_given_once():
    job = Job("twice")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.input("lines")
        flow.input("lines")

    with pytest.raises(DuplicateName, match="this job has an input 'lines' already"):
        job.run({})

    other = Job("outputs")

    @other.dataflow
    def build_other(flow: Flow) -> None:
        stream = flow.input("lines")
        flow.output("out", stream)
        flow.output("out", stream)

    with pytest.raises(DuplicateName, match="this job has an output 'out' already"):
        other.run({})


def test_a_job_has_one_dataflow():
    job = wordcount()
    with pytest.raises(GraphError, match="job 'wordcount' has a dataflow already"):
        job.dataflow(lambda flow: None)
    with pytest.raises(GraphError, match="job 'empty' has no dataflow"):
        Job("empty").run({})


def test_an_unknown_input_gets_the_closest_name():
    with pytest.raises(ConfigError, match="no input 'line'; it has 'lines'; did you mean 'lines'"):
        wordcount().run({"line": ["a"]})


def test_a_failing_function_is_named():
    job = Job("fails")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("out", flow.input("in").map(int, name="parse"))

    with pytest.raises(OperatorFailed, match="operator 'parse'"):
        job.run({"in": ["x"]})


def test_an_epoch_has_records():
    assert list(epochs("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(ConfigError, match="at least one record, not 0"):
        list(epochs("abc", 0))


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("text", ["", "one", "one\n", "\n\n", "one\r\ntwo\nthree three\n\nfive", "ü\né" * 9])
def test_every_line_of_a_file_is_in_one_part(tmp_path: Path, text: str, parts: int):
    path = tmp_path / "lines.txt"
    path.write_bytes(text.encode())
    read = [line for part in range(parts) for rows in lines(path, part=part, parts=parts, lines_max=2) for line in rows]
    expected = text.replace("\r\n", "\n").split("\n")
    assert read == (expected[:-1] if expected[-1] == "" else expected)


def test_lines_that_are_not_text_come_through(tmp_path: Path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"ok\n\xff\xfe\n")
    assert list(lines(path, part=0, parts=1, lines_max=10)) == [["ok", "\udcff\udcfe"]]
