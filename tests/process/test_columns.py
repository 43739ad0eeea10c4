"""A job of columns in real processes: they come and go, bins move, and every count and every aggregate is right."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.jobs import HAILER, Feed, ask, check_the_end, counting, status, wait_until, written
from tests.process.test_scale import processes, scale
from tests.process.test_serve import feed, read, serving
from tests.processes import COMPILING, end, start

COUNTS = """
from pathlib import Path
import pyarrow.compute as pc
from operators import Job
from operators.columns import aggregates as agg, split_words
from operators.columns.partials import Partials

job = Job("counts")

def count(word, n, total):
    return total + n, [(word, total + n)]

combine = Partials.combine

def noting(self, batch):
    made = combine(self, batch)
    if Partials.are_in(made):
        Path("combined").touch()
    return made

Partials.combine = noting

def with_number(batch):
    return batch.append_column("number", pc.cast(pc.utf8_slice_codeunits(batch["word"], 1), "int64"))

@job.dataflow
def counts(flow):
    words = flow.input_columns("lines", {"line": str}).flat_map(split_words("line"))
    flow.output("counts", words.stateful_state_machine(
        count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}, bins=16, name="count"
    ))
    flow.output("sums", words.map(with_number).stateful_aggregate(
        {"n": agg.count(), "sum": agg.sum("number"), "mean": agg.mean("number")}, key="word", bins=16, name="add up"
    ))
"""


@contextmanager
def folding(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Feed]]:
    """The job, once its lines flow."""
    with counting(folder, "--output", "sums=sums", *arguments, source=COUNTS) as running:
        yield running


def check_counts_and_sums(folder: Path, process: subprocess.Popen[str], lines: Feed) -> None:
    """Each word is counted from 1 on, and what is added up per epoch is that of its last count there."""
    check_the_end(folder, process, lines)
    last: dict[tuple[int, str], int] = {}
    for epoch, (word, n) in written(folder / "out"):
        last[epoch, word] = max(n, last.get((epoch, word), 0))
    expected = [(epoch, [word, n, n * int(word[1:]), float(word[1:])]) for (epoch, word), n in last.items()]
    assert sorted(written(folder / "sums")) == sorted(expected)


def owners(folder: Path) -> dict[str, Counter[int]]:
    """How many bins each worker has, by operator."""
    return {bins["name"]: Counter(bins["owners"]) for bins in status(folder)["bins"]}


def check_balance(folder: Path, workers: int) -> None:
    """Both operators have the same owners, each of whom has about as many of all keys."""
    first, second = status(folder)["bins"]
    assert first["owners"] == second["owners"]
    keys = Counter[int]()
    for bin_id, count in [*first["keys"].items(), *second["keys"].items()]:
        keys[first["owners"][int(bin_id)]] += count
    assert sorted(keys) == list(range(workers))
    assert max(keys.values()) * workers <= 1.4 * keys.total()


def test_processes_join_and_leave_and_bins_move_while_lines_flow(tmp_path: Path):
    with folding(tmp_path, "-n2") as (process, lines):
        assert scale(tmp_path, 3) == "1 process joined (2)"
        check_balance(tmp_path, workers=3)
        (tmp_path / "owners.json").write_text(json.dumps([2] * 16))
        ask(tmp_path, "map", "owners.json", "--strategy", "fluid")
        assert owners(tmp_path) == {"count": Counter({2: 16}), "add up": Counter({2: 16})}
        assert ask(tmp_path, "move", "0", "3", "--to", "1").startswith("moved 2 bins, ")
        assert scale(tmp_path, 2) == "1 process left (2)"
        assert [sorted(each) for each in owners(tmp_path).values()] == [[0, 1], [0, 1]]
        check_counts_and_sums(tmp_path, process, lines)


def test_workers_of_one_process_join_and_leave_together(tmp_path: Path):
    with folding(tmp_path, "-n1", "-w2") as (process, lines):
        assert scale(tmp_path, 2) == "1 process joined (1)"
        check_balance(tmp_path, workers=4)
        assert ask(tmp_path, "move", "0", "1", "2", "3", "--to", "3").startswith("moved ")
        os.kill(status(tmp_path)["workers"][3]["pid"], signal.SIGTERM)
        wait_until(lambda: processes(tmp_path) == [0, 0])
        check_counts_and_sums(tmp_path, process, lines)


def test_a_process_that_is_killed_ends_the_job_with_a_report(tmp_path: Path):
    with folding(tmp_path, "-n2") as (process, _):
        os.kill(status(tmp_path)["workers"][1]["pid"], signal.SIGKILL)
        ended = end(process)
        assert ended.code == 1
        first, second = (line for line in ended.said if not line.endswith(COMPILING))
        assert first == "job failed: process 1 was ended by SIGKILL"
        assert second.startswith("job failed: worker 0 lost worker 1: ")


def test_batches_that_others_feed_are_counted_and_read_alike_while_processes_come_and_go(tmp_path: Path):
    (tmp_path / "counts.py").write_text(COUNTS)
    with serving(tmp_path, "-n2") as (_, endpoint):
        fed: list[list[str]] = []

        def feed_some() -> None:
            words = [f"w{(len(fed) * word) % 97}" for word in range(10)]
            often = ["w13"] * (2 if len(fed) % 3 else 150)  # which is combined before it is sent
            feed(endpoint, len(fed), [" ".join(words), " ".join(often)])
            fed.append([*words, *often])

        feed_some()
        endpoint.client.latest("counts", settle=True)
        first = read(endpoint, "counts", 0, 1)
        for number in ("3", "1"):
            scaling = start((HAILER, "scale", number), tmp_path, tmp_path)
            while scaling.poll() is None:
                feed_some()
            assert end(scaling).code == 0
            assert read(endpoint, "counts", 0, 1) == first
        totals = Counter(word for words in fed for word in words)
        _, end_ = endpoint.client.latest("counts", settle=True)
        assert sorted(read(endpoint, "counts", 0, end_), key=str) == sorted(
            ((word, n) for word, total in totals.items() for n in range(1, total + 1)), key=str
        )
        endpoint.client.latest("sums", settle=True)
        last: dict[object, tuple[object, ...]] = {}
        for row in sorted(read(endpoint, "sums", 0, end_)):
            last[row[0]] = row
        assert set(last.values()) == {(word, n, n * int(word[1:]), float(word[1:])) for word, n in totals.items()}
        assert (tmp_path / "combined").exists()
