"""Columns on the wire: an Arrow `RecordBatch` as an IPC stream of one batch, read in place."""

from __future__ import annotations

import pyarrow as pa

from framework.errors import ProtocolError
from framework.wire.arrow_checks import check_batch, check_uncompressed
from framework.wire.codec import Buffer
from framework.wire.container import COLUMNS, Kind, register_kind

SMALL_ROWS = 8192
"""A batch costs an operator some tens of microseconds, about as much as these rows; smaller ones are joined."""

SMALL_ROW_BYTES = 32
"""A longer row counts as several of this size: joining long rows copies more than caches hold."""

ROW_BYTES = 64
"""The least that a record of a rows container takes in memory."""

ALIGNMENT = 8
"""Compiled code reads numbers in place, and expects them to be aligned."""

PADDING = 8
"""Arrow writes the buffers of a batch one behind the other, each padded to a multiple of this."""


_OPTIONS = pa.ipc.IpcWriteOptions()
"""Without these, Arrow looks for them in the environment each time."""

_READ_OPTIONS = pa.ipc.IpcReadOptions(ensure_native_endian=False)
"""Arrow would swap the bytes of a batch by the lengths that it claims, before these can be checked."""


class _Pieces:
    """A file for Arrow to write to. It keeps the pieces uncopied: the large ones are a batch's own buffers."""

    closed = False

    def __init__(self) -> None:
        self.pieces: list[Buffer] = []

    def write(self, piece: Buffer) -> int:
        self.pieces.append(piece)
        return len(piece)

    def tell(self) -> int:
        return sum(map(len, self.pieces))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """The batch and its schema."""
    return b"".join(_written(batch))


def _written(batch: pa.RecordBatch) -> list[Buffer]:
    sink = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return sink.pieces


def _allocated(size: int) -> memoryview:
    return memoryview(pa.allocate_buffer(size)).cast("B")


def decode_batch(buffer: Buffer) -> pa.RecordBatch:
    """The batch in `buffer`, which it refers to if that is aligned; or `ProtocolError`."""
    try:
        octets = pa.py_buffer(buffer)
        if octets.address % ALIGNMENT:
            octets = pa.py_buffer(bytes(buffer))
        check_uncompressed(octets)
        with pa.ipc.open_stream(octets, options=_READ_OPTIONS) as reader:
            batch = reader.read_next_batch()
        check_batch(batch)
    except (pa.ArrowException, OSError, StopIteration, UnicodeDecodeError) as error:
        raise ProtocolError(f"not an Arrow batch: {error}") from error
    return batch


def batch_size(batch: pa.RecordBatch) -> int:
    """How many rows a batch has, or would have if none were long."""
    rows = len(batch)
    return rows if rows >= SMALL_ROWS else max(rows, batch.nbytes // SMALL_ROW_BYTES)


def split_batch(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Two halves, in order."""
    middle = len(batch) // 2
    return batch.slice(0, middle), batch.slice(middle)


register_kind(
    Kind(
        COLUMNS,
        pa.RecordBatch,
        lambda batch, where: _written(batch),
        decode_batch,
        split_batch,
        pa.concat_batches,
        lambda one, other: one.schema.equals(other.schema),
        batch_size,
        small=SMALL_ROWS,
        weight=lambda batch: batch.nbytes // ROW_BYTES,
        allocate=_allocated,
    )
)
