"""Columns on the wire: an Arrow `RecordBatch` as an IPC stream of one batch, read in place."""

from __future__ import annotations

import pyarrow as pa

from framework.errors import ProtocolError
from framework.wire.codec import Buffer
from framework.wire.container import COLUMNS, Kind, register_kind


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """The batch and its schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(memoryview(sink.getvalue()))


def decode_batch(buffer: Buffer) -> pa.RecordBatch:
    """The batch in `buffer`, which it refers to; or `ProtocolError`."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(buffer)) as reader:
            batch = reader.read_next_batch()
        batch.validate()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ProtocolError(f"not an Arrow batch: {error}") from error
    return batch


def split_batch(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Two halves, in order."""
    middle = len(batch) // 2
    return batch.slice(0, middle), batch.slice(middle)


register_kind(Kind(COLUMNS, pa.RecordBatch, lambda batch, where: encode_batch(batch), decode_batch, split_batch))
