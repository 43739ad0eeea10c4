"""A broker under clients that stage, commit, read and break off all at once, over real connections that are cut.

Drivers send again what they have heard no answer to, as Spark does; the job counts what it is fed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from random import Random

import pyarrow as pa
import pytest

from operators.broker import broker as broker_module
from operators.broker.budget import BrokerLimits
from operators.errors import JobLost, RequestRefused
from tests.unit.operators.broker.test_server import WAIT_S, Job, batch_of, serving, wait_until

QUERIES, BATCHES, TASKS, PARTS = 3, 20, 2, 3
ROWS = QUERIES * BATCHES * TASKS * PARTS
LIMITS = BrokerLimits(staged_bytes=400_000, unread_bytes=12_000, memory_bytes=6_000)

_numbers = count()


class TaskFails(Exception):
    """In the midst of its rows."""


def rows_of(query: str, batch: int, task: int) -> list[str]:
    return [f"{query} {batch} {task} {part} {'x' * 300}" for part in range(PARTS)]


def staging(rows: list[str], random: Random) -> Iterator[pa.RecordBatch]:
    for row in rows:
        yield batch_of(row)
        if random.random() < 0.05:
            raise TaskFails


def drive(job: Job, query: str, random: Random) -> None:
    """Write batch after batch, each by several tasks, and again until it is through."""
    batch = 0
    while batch < BATCHES:
        attempts = [f"{query} {batch} {next(_numbers)}" for _ in range(TASKS)]
        try:
            for task, attempt in enumerate(attempts):
                job.client.stage("lines", attempt, query, batch, staging(rows_of(query, batch, task), random))
            job.client.commit("lines", query, batch, attempts)
            batch += 1
        except (JobLost, RequestRefused, TaskFails):
            with suppress(JobLost):
                job.client.abort("lines", attempts)


def read_all(job: Job, read: list[str]) -> None:
    """Read what comes out, some of it at a time, and have it forgotten."""
    at = 0
    while len(read) < ROWS:
        with suppress(JobLost):
            _, end = job.client.latest("echo", at, rows_max=20, within_s=0.05)
            rows = job.read(at, end)
            read += rows
            at = end
            job.client.forget("echo", at)


def work(job: Job, ended: threading.Event) -> None:
    """What the job's first worker does."""
    while not ended.is_set():
        job.broker.retry()
        job.work()
        job.broker.wait(0.01)


def cut(job: Job, random: Random, ended: threading.Event) -> None:
    """Cut a connection now and then, whatever it is about."""
    while not ended.wait(0.002):
        clients = list(job.server._clients)
        if clients:
            random.choice(clients).shutdown()


def test_each_row_is_fed_once_and_read_once_whatever_breaks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.02)
    ended, read = threading.Event(), list[str]()
    with serving(LIMITS) as job:
        drivers = [
            threading.Thread(target=drive, args=(job, f"q{number}", Random(number))) for number in range(QUERIES)
        ]
        reader = threading.Thread(target=read_all, args=(job, read))
        others = [
            threading.Thread(target=work, args=(job, ended)),
            threading.Thread(target=cut, args=(job, Random(7), ended)),
        ]
        try:
            for thread in (*others, reader, *drivers):
                thread.start()
            for thread in (*drivers, reader):
                thread.join(6 * WAIT_S)
                assert not thread.is_alive()
        finally:
            ended.set()
            for thread in others:
                thread.join()
        wanted = Counter(
            row
            for query in range(QUERIES)
            for batch in range(BATCHES)
            for task in range(TASKS)
            for row in rows_of(f"q{query}", batch, task)
        )
        assert Counter(row for _, rows in job.fed for row in rows) == wanted
        assert Counter(read) == wanted
        job.client.forget("echo", job.client.latest("echo")[1])
        wait_until(lambda: not job.broker.inputs["lines"].attempts)
        wait_until(lambda: job.kept_bytes == 0)
