"""Packs keys of several columns into bytes, and unpacks them.

A key is its values in a row. Each has a byte that is 0 for null, and nothing more then; else 1, the length of a string
in 4 bytes, and the value's bytes, 8 of a number. So keys are equal if and only if their bytes are.

Packed keys come from other workers, too. Unpacking tells whether they are such keys: no length leads out
of its key, and each key is used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framework.errors import ProtocolError
from routing.columns.compiled import kernel
from routing.columns.memory import Array

LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of composite keys: strings between offsets, or, without offsets, numbers of 8 bytes."""

    nulls: Array
    offsets: Array
    data: Array

    @property
    def sizes(self) -> Array:
        """The number of bytes that each value takes in a packed key."""
        if len(self.offsets):
            return np.where(self.nulls, 1, 1 + LENGTH_BYTES + np.diff(self.offsets.astype(np.int64)))
        return np.where(self.nulls, 1, 9)


def pack(parts: Sequence[KeyPart]) -> tuple[Array, Array]:
    """Pack columns into keys: their offsets and their bytes."""
    offsets = np.zeros(len(parts[0].nulls) + 1, np.int64)
    np.cumsum(sum((part.sizes for part in parts), np.zeros(len(offsets) - 1, np.int64)), out=offsets[1:])
    data = np.empty(offsets[-1], np.uint8)
    cursors = offsets[:-1].copy()
    for part in parts:
        _pack_column(cursors, part.nulls, part.offsets, part.data, data)
    return offsets, data


def unpack(offsets: Array, data: Array, strings: Sequence[bool]) -> list[KeyPart]:
    """Unpack keys into columns, of which `strings` tells the kinds; or `ProtocolError`."""
    cursors, limits = np.array(offsets[:-1], np.int64), np.array(offsets[1:], np.int64)
    parts = []
    for string in strings:
        nulls = np.empty(len(cursors), np.bool_)
        starts, ends = np.empty(len(cursors), np.int64), np.zeros(len(cursors) + 1, np.int64)
        row = _measure(cursors, limits, data, string, nulls, starts, ends)
        if row < len(cursors):
            raise _unfit(offsets, row, strings)
        if string:
            values = np.empty(ends[-1], np.uint8)
            _gather(starts, ends, data, values)
            parts.append(KeyPart(nulls, ends, values))
        else:
            parts.append(KeyPart(nulls, np.zeros(0, np.int64), take_words(starts, nulls, data)))
    if (cursors != limits).any():
        raise _unfit(offsets, int(np.argmax(cursors != limits)), strings)
    return parts


def take_words(starts: Array, nulls: Array, data: Array) -> Array:
    """Gather the 8 bytes at each of `starts`, or zeros for nulls."""
    words = np.zeros(8 * len(starts), np.uint8)
    _gather_words(starts, nulls, data, words)
    return words


def validity(nulls: Array) -> pa.Buffer | None:
    """Arrow's validity bitmap, from a mask of nulls; None without nulls."""
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


def _unfit(offsets: Array, row: int, strings: Sequence[bool]) -> ProtocolError:
    size = int(offsets[row + 1]) - int(offsets[row])
    kinds = ", ".join("a string" if string else "a number" for string in strings)
    return ProtocolError(f"a key of several columns whose {size} bytes are not those of ({kinds})")


@kernel
def _pack_column(cursors: Array, nulls: Array, offsets: Array, data: Array, out: Array) -> None:
    for row in range(len(cursors)):
        at = cursors[row]
        out[at] = np.uint8(0 if nulls[row] else 1)
        at += 1
        if not nulls[row]:
            start, size = np.int64(8 * row), np.int64(8)
            if len(offsets):
                start = np.int64(offsets[row])
                size = np.int64(offsets[row + 1]) - start
                for byte in range(LENGTH_BYTES):
                    out[at + byte] = np.uint8((size >> (8 * byte)) & 255)
                at += LENGTH_BYTES
            for byte in range(size):
                out[at + byte] = data[start + byte]
            at += size
        cursors[row] = at


@kernel
def _measure(cursors: Array, limits: Array, data: Array, string: bool, nulls: Array, starts: Array, ends: Array) -> int:
    """Where the next value of each key starts, and the ends of the values in a row; cursors move behind it.

    Returns the first key that its value would lead out of, or the number of keys.
    """
    for row in range(len(cursors)):
        at, limit = cursors[row], limits[row]
        if at >= limit or data[at] > 1:
            return row
        nulls[row] = data[at] == 0
        at += 1
        size = np.int64(8)
        if nulls[row]:
            size = np.int64(0)
        elif string:
            if at + LENGTH_BYTES > limit:
                return row
            size = np.int64(0)
            for byte in range(LENGTH_BYTES):
                size |= np.int64(data[at + byte]) << (8 * byte)
            at += LENGTH_BYTES
        if at + size > limit:
            return row
        starts[row] = at
        ends[row + 1] = ends[row] + size
        cursors[row] = at + size
    return len(cursors)


@kernel
def _gather(starts: Array, ends: Array, data: Array, out: Array) -> None:
    for row in range(len(starts)):
        size = ends[row + 1] - ends[row]
        for byte in range(size):
            out[ends[row] + byte] = data[starts[row] + byte]


@kernel
def _gather_words(starts: Array, nulls: Array, data: Array, out: Array) -> None:
    for row in range(len(starts)):
        if not nulls[row]:
            for byte in range(8):
                out[8 * row + byte] = data[starts[row] + byte]
