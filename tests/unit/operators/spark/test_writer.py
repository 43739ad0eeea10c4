"""What tasks of Spark stage, and what becomes of it."""

from __future__ import annotations

from copy import deepcopy

import pyarrow as pa
import pytest

from framework.errors import ConfigError
from operators.errors import RequestRefused
from operators.spark import HailerSource
from operators.spark.writer import BatchWriter, StreamWriter, WriteTarget
from tests.unit.operators.spark.conftest import Served

LINES = pa.record_batch({"line": ["to be", "or not"]})


@pytest.fixture
def target(served: Served) -> WriteTarget:
    return WriteTarget(served.client, "lines", LINES.schema, final=False)


def rows(served: Served) -> list[int]:
    """Of each batch that is released, how many rows it has."""
    found = []
    while (release := served.broker.take()) is not None:
        found.append(release.rows)
    return found


def test_of_an_aborted_batch_nothing_stays(served: Served, target: WriteTarget):
    staged = [target.stage("q", 0, iter([LINES])) for _ in range(2)]
    assert len(served.broker.inputs["lines"].attempts) == 2
    StreamWriter(target, None).abort([*staged, None], batchId=0)  # None: a task that has failed
    assert served.broker.inputs["lines"].attempts == {}
    assert served.broker.staged.occupied == 0


def test_a_dataframe_that_is_written_again_under_its_name_counts_once(served: Served, target: WriteTarget):
    """The driver has died after its commit, or has not heard of it; whoever runs it again makes a new writer."""
    for _ in range(2):
        writer = BatchWriter(target, "monday")
        task = deepcopy(writer)  # as it comes to an executor
        writer.commit([task.write(iter([LINES]))])
    assert rows(served) == [2]
    assert (served.broker.inputs["lines"].attempts, served.broker.staged.occupied > 0) == ({}, True)
    BatchWriter(target, "tuesday").commit([BatchWriter(target, "tuesday").write(iter([LINES]))])
    assert rows(served) == [2]


def test_a_dataframe_without_a_name_counts_each_time(served: Served, target: WriteTarget):
    for _ in range(2):
        writer = BatchWriter(target, None)
        writer.commit([writer.write(iter([LINES]))])
    assert rows(served) == [2, 2]


def test_the_batches_of_a_stream_have_no_names(monkeypatch: pytest.MonkeyPatch):
    from pyspark.sql.types import StringType, StructType

    with pytest.raises(ConfigError, match="the batches of a stream are known by its checkpoint"):
        HailerSource({"batch": "monday"}).streamWriter(StructType().add("line", StringType()), overwrite=False)


def test_batches_without_rows_are_known_by_their_querys_checkpoint(served: Served, target: WriteTarget):
    StreamWriter(target, "there").commit([], batchId=0)
    staged = target.stage("q", 1, iter([LINES]))
    for elsewhere in ("elsewhere", None):
        with pytest.raises(RequestRefused, match="has none of its earlier ones"):
            StreamWriter(target, elsewhere).commit([staged], batchId=1)
    StreamWriter(target, "there").commit([staged], batchId=1)
    assert rows(served) == [2]
