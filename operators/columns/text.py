"""Text files as columns: a row is a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from framework.errors import ConfigError
from operators.errors import RecordUnfit
from routing.columns.compiled import kernel
from routing.columns.memory import Array

READ_BYTES = 4 * 1024 * 1024


def line_batches(path: Path, schema: pa.Schema, *, lines_max: int, where: str) -> Iterator[pa.RecordBatch]:
    """Batches of the lines of a file, without their line ends."""
    if len(schema) != 1 or not pa.types.is_string(schema.field(0).type):
        raise ConfigError(f"{where} takes the columns {schema.names}, and a text file has one, of strings, the line")
    # Unbuffered: a read of a pipe returns what is there, instead of waiting for `READ_BYTES`.
    with path.open("rb", buffering=0) as file:
        rest = b""
        waiting: list[pa.Array] = []
        while chunk := file.read(READ_BYTES):
            text = rest + chunk
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            if end:
                waiting.append(_lines(memoryview(text)[:end], path))
            if sum(map(len, waiting)) >= lines_max:
                *whole, last = _slice_lines(waiting, lines_max)
                waiting = [last] if len(last) < lines_max else []
                for lines in whole if waiting else [*whole, last]:
                    yield pa.RecordBatch.from_arrays([lines], schema=schema)
        if rest:
            waiting.append(_lines(memoryview(rest + b"\n"), path))
        for lines in _slice_lines(waiting, lines_max):
            yield pa.RecordBatch.from_arrays([lines], schema=schema)


def _slice_lines(arrays: list[pa.Array], lines_max: int) -> list[pa.Array]:
    if not arrays:
        return []
    joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    return [joined.slice(start, lines_max) for start in range(0, len(joined), lines_max)]


def _lines(text: memoryview, path: Path) -> pa.Array:
    """The lines of a text that ends with a line end."""
    data = np.frombuffer(text, np.uint8)
    offsets = np.zeros(int(np.count_nonzero(data == 10)) + 1, np.int32)
    kept = np.empty(len(data), np.uint8)
    size = _strip_ends(data, offsets, kept)
    lines = pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(kept[:size])]
    )
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise RecordUnfit(
            f"{path} is not UTF-8, and columns of strings are: {error}; feed it to an input of rows"
        ) from None
    return lines


@kernel
def _strip_ends(data: Array, offsets: Array, kept: Array) -> int:
    row, size = 0, 0
    for at in range(len(data)):
        octet = data[at]
        if octet == 10:
            while size > offsets[row] and kept[size - 1] == 13:
                size -= 1
            row += 1
            offsets[row] = size
        else:
            kept[size] = octet
            size += 1
    return size
