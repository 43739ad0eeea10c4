"""Up to where one batch of Spark reads."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from framework.wire.columns import encode_batch
from operators.spark.reader import Origin, StreamReader
from tests.unit.operators.spark.conftest import Served

ROW = pa.record_batch({"word": ["tea"]})
SIZE = len(encode_batch(ROW))


@pytest.mark.parametrize(
    ("rows_max", "bytes_max", "limit", "end"),
    [
        (3, None, ReadMaxRows(3), 3),
        (None, 2 * SIZE, ReadMaxBytes(2 * SIZE), 2),
        (3, 2 * SIZE, ReadMaxRows(3), 2),
        (3, 4 * SIZE, ReadMaxRows(3), 3),
        (3, 2 * SIZE, ReadAllAvailable(), 5),
    ],
)
def test_a_batch_keeps_to_the_limits_in_rows_and_in_bytes(
    served: Served, rows_max: int | None, bytes_max: int | None, limit: ReadLimit, end: int
):
    """Spark passes on but one limit: that in rows, if both are given."""
    for epoch in range(5):
        served.broker.deliver("counts", epoch, encode_batch(ROW), 1)
    served.broker.close_before("counts", 5)
    origin = Origin(served.client, "job", "run", "counts", ROW.schema)
    reader = StreamReader(origin, rows_max=rows_max, bytes_max=bytes_max)
    assert reader.latestOffset({"run": "run", "epoch": 0}, limit) == {"run": "run", "epoch": end}


def test_a_query_that_reads_what_there_is_never_goes_back(served: Served):
    served.broker.deliver("counts", 0, encode_batch(ROW), 1)
    served.broker.close_before("counts", 1)
    reader = StreamReader(Origin(served.client, "job", "run", "counts", ROW.schema), rows_max=None, bytes_max=None)
    reader.prepareForTriggerAvailableNow()
    for epoch, end in ((0, 1), (3, 3)):
        assert reader.latestOffset({"run": "run", "epoch": epoch}, ReadAllAvailable()) == {"run": "run", "epoch": end}
