"""What tasks of Spark stage, and what becomes of it."""

from __future__ import annotations

import pyarrow as pa

from operators.spark.writer import StreamWriter, WriteTarget
from tests.unit.operators.spark.conftest import Served

LINES = pa.record_batch({"line": ["to be", "or not"]})


def test_of_an_aborted_batch_nothing_stays(served: Served):
    target = WriteTarget(served.client, "lines", LINES.schema, final=False)
    staged = [target.stage("q", 0, iter([LINES])) for _ in range(2)]
    assert len(served.broker.inputs["lines"].attempts) == 2
    StreamWriter(target, None).abort([*staged, None], batchId=0)  # None: a task that has failed
    assert served.broker.inputs["lines"].attempts == {}
    assert served.broker.staged.occupied == 0
