"""A job that others feed and read while it runs, as Spark does, here without Spark: `hailer run --serve`."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from operators.broker.endpoint import JobEndpoint, find_endpoint
from operators.errors import JobLost, RequestRefused
from tests.process.jobs import HAILER, ask, hailer, wait_for_status, wait_until
from tests.processes import end, start
from tests.small_disk import fill, small_disk

COUNTS = """
from operators import Job

job = Job("counts")

def count(word, n, total):
    return total + n, [(word, total + n)]

@job.dataflow
def counts(flow):
    numbers, rejected = flow.input("lines", {"line": str}).flat_map(str.split).attempt(lambda word: (word, int(word)))
    totals = numbers.stateful_state_machine(count, initial=0, bins=16)
    flow.output("totals", totals.map(lambda pair: pair if pair[0] != "13" else 1 / 0), {"word": str, "total": int})
    flow.output("rejected", rejected, {"word": str, "reason": str})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counts.py").write_text(COUNTS)
    return tmp_path


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], JobEndpoint]]:
    """A job that is served, and where."""
    process = start((HAILER, "run", "counts.py", "--serve", *arguments), folder, folder)

    try:
        wait_until(lambda: process.poll() is not None or list(folder.glob(".hailer/*/job.json")))
        yield process, find_endpoint(folder)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            end(process)


def feed(endpoint: JobEndpoint, batch: int, lines: list[str], query: str = "q") -> None:
    """One batch, written by two tasks."""
    attempts = [f"{query}/{batch}/{task}" for task in range(2)]
    for task, attempt in enumerate(attempts):
        rows = pa.record_batch({"line": lines[task::2]}, schema=endpoint.inputs["lines"])
        endpoint.client.stage("lines", attempt, query, batch, [rows])
    endpoint.client.commit("lines", query, batch, attempts)


def read(endpoint: JobEndpoint, output: str, start: int, end: int) -> list[tuple[object, ...]]:
    batches = [
        batch for pieces in endpoint.client.parts(output, start, end) for batch in endpoint.client.read(output, pieces)
    ]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_counts_are_right_and_read_alike_while_processes_come_and_go(folder: Path):
    """From two processes to three, and to one; what was read before is read again after."""
    words = [str(number % 12) for number in range(600)]
    with serving(folder, "-n2") as (process, endpoint):
        batch = 0

        def feed_some() -> None:
            nonlocal batch
            for _ in range(10):
                feed(endpoint, batch, [" ".join(words[batch * 10 : batch * 10 + 10])] * 2)
                batch += 1

        feed_some()
        _, end_ = endpoint.client.latest("totals", settle=True)
        assert end_ == 10
        first = read(endpoint, "totals", 0, 10)
        for processes in ("3", "1"):
            scaling = start((HAILER, "scale", processes), folder, folder)
            while scaling.poll() is None:
                feed_some()
                words += words
            assert end(scaling).code == 0
            assert read(endpoint, "totals", 0, 10) == first
        feed_some()
        fed = Counter[object]()
        for number in words[: batch * 10]:
            fed[number] += 2 * int(number)
        _, end_ = endpoint.client.latest("totals", settle=True)
        rows = read(endpoint, "totals", 0, end_)
        assert len(rows) == 20 * batch
        totals: dict[object, int] = {}
        for word, total in rows:
            assert isinstance(total, int)
            totals[word] = max(totals.get(word, 0), total)
        assert totals == fed
        # It ends when it is told to, and when all that came out has been read.
        assert ask(folder, "finish").startswith("counts takes nothing more")
        assert process.poll() is None
        endpoint.client.forget("totals", end_)
        ended = end(process)
        assert (ended.code, ended.out) == (0, "")


def test_bins_and_workers_move_while_nothing_comes_in(folder: Path):
    with serving(folder, "-n2") as (_, endpoint):
        feed(endpoint, 0, ["1 2 3"])
        assert "moved 2 bins" in ask(folder, "move", "0", "2", "--to", "1")
        assert "1 process joined" in ask(folder, "scale", "3")
        settled = "nothing to move: every bin is where it should be\n"
        assert ask(folder, "rebalance", "--strategy", "fluid") == settled, "a scale leaves nothing to balance"
        assert "2 processes left" in ask(folder, "scale", "1")
        feed(endpoint, 1, ["1 2 3"])
        _, end_ = endpoint.client.latest("totals", settle=True)
        assert sorted(read(endpoint, "totals", 0, end_)) == [(str(n), n * times) for n in (1, 2, 3) for times in (1, 2)]


def test_a_job_that_nobody_reads_takes_nothing_in_until_somebody_does(folder: Path):
    """It says so, bins and workers move meanwhile, and what was held back is counted once."""
    with serving(folder, "-n2", "--unread-bytes", "1K", "--buffer-memory", "0") as (process, endpoint):
        batches = 0

        def feed_all() -> None:
            nonlocal batches
            for batch in range(6):
                feed(endpoint, batch, ["1 2 3"] * 10)
                batches += 1

        feeding = threading.Thread(target=feed_all)
        feeding.start()
        held = wait_for_status(folder, lambda status: status["held"] is not None and batches)["held"]
        assert held.endswith(" of them of 'totals', and the limit is 1,024")
        assert f"nothing is taken in: {held}" in ask(folder, "status")
        assert "1 process joined" in ask(folder, "scale", "3")
        assert feeding.is_alive()
        rows, start_ = list[tuple[object, ...]](), 0
        while len(rows) < 6 * 30:
            _, end_ = endpoint.client.latest("totals", start_, within_s=1.0)
            rows += read(endpoint, "totals", start_, end_)
            endpoint.client.forget("totals", end_)
            start_ = end_
        feeding.join()
        assert sorted(rows) == sorted((str(n), n * times) for n in (1, 2, 3) for times in range(1, 61))
        assert ask(folder, "finish").startswith("counts takes nothing more")
        ended = end(process)
    assert ended.code == 0
    assert ended.err.count("nothing is taken in: ") == ended.err.count("the job takes in again") >= 1


def test_a_job_whose_disk_is_full_goes_on_when_there_is_room(folder: Path):
    with (
        small_disk(folder / "disk", 1 << 20) as disk,
        serving(folder, "--buffer-dir", str(disk), "--buffer-memory", "0") as (process, endpoint),
    ):
        feed(endpoint, 0, ["1 2 3"] * 10)
        filler = fill(disk)
        feeding = threading.Thread(target=feed, args=(endpoint, 1, ["1 2 3"] * 10))
        feeding.start()
        wait_for_status(folder, lambda status: "disk of the job's first worker is full" in (status["held"] or ""))
        assert (feeding.is_alive(), process.poll()) == (True, None)
        filler.unlink()
        feeding.join()
        _, end_ = endpoint.client.latest("totals", settle=True)
        totals = sorted((str(n), n * times) for n in (1, 2, 3) for times in range(1, 21))
        assert sorted(read(endpoint, "totals", 0, end_)) == totals


def test_what_a_function_rejects_goes_to_the_dead_letters(folder: Path):
    with serving(folder) as (_, endpoint):
        feed(endpoint, 0, ["1 2 tea", "milk 3"])
        endpoint.client.latest("rejected", settle=True)
        reason = "ValueError: invalid literal for int() with base 10: {!r}".format
        assert sorted(read(endpoint, "rejected", 0, 1)) == [("milk", reason("milk")), ("tea", reason("tea"))]
        assert sorted(read(endpoint, "totals", 0, 1)) == [("1", 1), ("2", 2), ("3", 3)]


def test_a_record_that_no_function_takes_ends_the_job_and_is_named_with_its_epoch(folder: Path):
    with serving(folder, "-n2") as (process, endpoint):
        feed(endpoint, 0, ["1 2"])
        with suppress(JobLost, RequestRefused):  # the answer to the commit may come before the end, or not
            feed(endpoint, 1, ["13"])
        ended = end(process)
    assert ended.code == 1
    assert "operator 'map' (" in ended.err
    assert "at time 1" in ended.err
    assert "ZeroDivisionError: division by zero\n  the record was ('13', 13)" in ended.err


def test_a_job_that_is_not_open_says_how_to_open_it(folder: Path):
    ended = hailer(folder, "run", "counts.py")
    assert "or --serve, for Spark to feed it" in ended.err
    ended = hailer(folder, "run", "counts.py", "--serve", "--input", "lines=counts.py")
    assert "--serve opens all inputs to others; leave --input out, or --serve" in ended.err
