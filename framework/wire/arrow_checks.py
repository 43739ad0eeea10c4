"""What is checked of an Arrow batch from outside, before anything is read of it in place.

Arrow's own `validate()` looks at the sizes of buffers and at the ends of offsets. Compiled code takes offsets and
dictionary codes for addresses, so here each of them is looked at, once, where bytes become a batch. A null count comes
as a number beside the bitmap that it counts, and Arrow believes it. Of types that no compiled code reads, `validate`
checks everything, at some nanoseconds a value.

UTF-8 is not checked: no compiled code depends on it, and Arrow's functions on text check it themselves.
"""

from __future__ import annotations

import struct
from struct import unpack_from

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.errors import ProtocolError

_OFFSETS = {
    kind.id: offset
    for offset, kinds in {
        np.int32: (pa.string(), pa.binary()),
        np.int64: (pa.large_string(), pa.large_binary()),
    }.items()
    for kind in kinds
}
"""The type of offsets, by the id of the type of strings."""

_MESSAGE_HEADER, _DICTIONARY_DATA, _BATCH_COMPRESSION = 2, 1, 3
"""The numbers of fields in Arrow's `Message.fbs`."""


def check_uncompressed(octets: pa.Buffer) -> None:
    """Raise `ProtocolError` if a stream's first batch, or a dictionary before it, is compressed.

    We compress nothing, and some bytes can decompress to any amount of memory.
    """
    for message in pa.ipc.MessageReader.open_stream(octets):
        if message.type != "schema" and _is_compressed(message):
            raise ProtocolError("a compressed Arrow batch; send it uncompressed")
        if message.type == "record batch":
            return


def check_batch(batch: pa.RecordBatch) -> None:
    """Raise `ProtocolError` or `pa.ArrowInvalid` unless all of a batch can be read in place."""
    batch.validate()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        fault = _fault_of(column)
        if fault:
            raise ProtocolError(f"an Arrow batch whose column {name!r} has {fault}")


def _fault_of(column: pa.Array) -> str | None:
    """What is wrong with a column, if anything is."""
    kind = column.type
    is_dictionary, is_string = pa.types.is_dictionary(kind), kind.id in _OFFSETS
    if not (is_dictionary or is_string or pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)):
        column.validate(full=True)
        return None
    if not _nulls_are_counted(column):
        return "a wrong count of nulls"
    if is_string and not _offsets_fit(column):
        return "offsets that go backwards or beyond its data"
    if is_dictionary:
        return _fault_of(column.dictionary) or (None if _codes_fit(column) else "codes that its dictionary lacks")
    return None


def _nulls_are_counted(column: pa.Array) -> bool:
    if not column.null_count:
        return True  # then Arrow has dropped the bitmap
    bitmap = column.buffers()[0]
    if bitmap is None:
        return False
    valid = pa.Array.from_buffers(pa.bool_(), len(column), [None, bitmap], offset=column.offset)
    return bool(valid.true_count + column.null_count == len(column))


def _codes_fit(column: pa.DictionaryArray) -> bool:
    """Whether a dictionary has each value that a column names."""
    if column.null_count == len(column):
        return True
    bounds = pc.min_max(column.indices)
    return bool(bounds["min"].as_py() >= 0 and bounds["max"].as_py() < len(column.dictionary))


def _offsets_fit(column: pa.Array) -> bool:
    """Whether offsets rise within the data. Hot path: one comparison in numpy, a tenth of a nanosecond per row."""
    if not len(column):
        return True
    _, buffer, data = column.buffers()
    kind = np.dtype(_OFFSETS[column.type.id])
    offsets = np.frombuffer(buffer, kind, len(column) + 1, kind.itemsize * column.offset)
    size = 0 if data is None else data.size
    return bool(offsets[0] >= 0 and offsets[-1] <= size and not (offsets[1:] < offsets[:-1]).any())


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Whether the message of a batch, or of a dictionary, names a compression. Arrow has verified its flatbuffer."""
    octets = message.metadata.to_pybytes()
    try:
        table = _table(octets, _indirect(octets, 0), _MESSAGE_HEADER)
        if message.type == "dictionary":
            table = _table(octets, table, _DICTIONARY_DATA)
        return _field(octets, table, _BATCH_COMPRESSION) > 0
    except struct.error as error:
        raise ProtocolError(f"not an Arrow batch: {error}") from error


def _table(octets: bytes, table: int, number: int) -> int:
    """Where in a flatbuffer the table is that a field of another table refers to."""
    return _indirect(octets, _field(octets, table, number))


def _indirect(octets: bytes, at: int) -> int:
    [distance] = unpack_from("<I", octets, at)
    return at + int(distance)


def _field(octets: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if it is absent."""
    [distance] = unpack_from("<i", octets, table)
    vtable, entry = table - distance, 4 + 2 * number
    [size] = unpack_from("<H", octets, vtable)
    if entry >= size:
        return 0
    [offset] = unpack_from("<H", octets, vtable + entry)
    return table + int(offset) if offset else 0
