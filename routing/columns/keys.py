"""Keys in columns: what a key is made of, its hash, and the bytes by which a table knows it.

A key is one column or several. Its bytes are those of a string, or the 8 bytes of a number; a key that is null has
none. The bytes of a composite key are those of its columns one after the other, each after a byte that tells whether it
is null and, if it is a string, its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.errors import GraphError
from framework.suggest import hint
from routing.columns import composite_key, hashing
from routing.columns.memory import WORD, Array, empty, padded
from routing.hashing import BYTES_SEED, DATE_SEED, INT_SEED, NAIVE_SEED, STR_SEED, ZONED_SEED

RESERVED = "\0"
"""What the names of columns begin with that are not the job's."""

HASHES = RESERVED + "hashes"
"""A column of hashes that a batch brings along on its way to its owner."""

_INT32_MAX = 2**31 - 1
"""How far the offsets of strings go that are not large."""

_NAN = np.array([np.nan]).view(np.uint64)[0]


def sealed(array: Array) -> Array:
    """An array that cannot be written, as most of Arrow's are: for the compiler it is one of another type."""
    array.setflags(write=False)
    return array


_NO_CODES = sealed(np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a batch: the hash of each, and its bytes, which lie between offsets."""

    hashes: Array
    offsets: Array
    data: Array
    nulls: Array
    """Which of them are null; empty if none is."""
    codes: Array = field(default_factory=lambda: _NO_CODES)
    """Which key each row has, if they are not in the order of rows; else empty."""

    def __len__(self) -> int:
        return len(self.hashes)

    def hashes_at(self, rows: Array) -> Array:
        """The hashes of the keys of some rows."""
        found: Array = self.hashes[self.codes[rows] if len(self.codes) else rows]
        return found

    def slice(self, start: int, end: int) -> Keys:
        """The keys of some rows, in place."""
        if len(self.codes):
            return replace(self, codes=self.codes[start:end])
        return Keys(self.hashes[start:end], self.offsets[start : end + 1], self.data, self.nulls[start:end])

    def arguments(self) -> tuple[Array, ...]:
        """What a loop over rows takes: they, and a place for the entry of each key, once that is known."""
        known = np.full(len(self.hashes), -1) if len(self.codes) else _NOT_KNOWN
        return self.hashes, self.offsets, self.data, self.nulls, self.codes, known


_NOT_KNOWN = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key."""

    name: str
    type: pa.DataType
    kind: Literal["bytes", "word", "unsigned", "double"]
    seed: int
    stored: pa.DataType
    """What values are brought to before they are hashed: a string, or a number of 8 bytes."""

    @staticmethod
    def of(field: pa.Field) -> KeyColumn:
        """The column of a key that `field` describes."""
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        match _form(plain):
            case kind, seed, stored:
                return KeyColumn(field.name, field.type, kind, seed, stored)
        raise GraphError(
            f"column {field.name!r} is {field.type} and cannot be a key; let it be a string, a number, a boolean, a "
            f"date or a timestamp of microseconds or less, for instance with `pc.cast` in a `map`"
        )

    def hashes(self, array: pa.Array) -> Array:
        """The hash of each value."""
        out = empty(len(array), np.uint64)
        match self.kind:
            case "bytes":
                hashing.hash_bytes(*byte_strings(array), np.uint64(self.seed), out)
            case "word":
                hashing.hash_words(words_of(array), np.uint64(self.seed), out)
            case "unsigned":
                hashing.hash_unsigned(words_of(array), out)
            case "double":
                words = words_of(array)
                hashing.hash_doubles(words.view(np.float64), words, out)
        if array.null_count:
            out[nulls_of(array)] = hashing.HASH_OF_NONE
        return out

    def is_coded(self, array: pa.Array) -> bool:
        """Whether these are strings in a dictionary that is worth looking at as a whole."""
        if not pa.types.is_dictionary(array.type) or self.kind != "bytes":
            return False
        worth_it = 0 < len(array.dictionary) <= len(array)
        return worth_it and not array.null_count and not array.dictionary.null_count

    def octets(self, array: pa.Array) -> tuple[Array, Array, Array]:
        """The offsets and the bytes of each value, and which are null, if any is."""
        nulls = nulls_of(array) if array.null_count else _NONE
        if self.kind == "bytes":
            return *byte_strings(array), nulls
        return sealed(np.arange(0, 8 * len(array) + 8, 8)), words_of(array).view(np.uint8), nulls

    def array(self, part: composite_key.KeyPart) -> pa.Array:
        """The values that have these bytes, as they are stored."""
        validity = composite_key.validity(part.nulls)
        if self.kind != "bytes":
            return pa.Array.from_buffers(self.stored, len(part.nulls), [validity, pa.py_buffer(part.data)])
        is_large = pa.types.is_large_string(self.stored) or pa.types.is_large_binary(self.stored)
        if is_large or part.offsets[-1] <= _INT32_MAX:
            kind, offsets = self.stored, part.offsets.astype(np.int64 if is_large else np.int32, copy=False)
        else:
            kind, offsets = pa.large_binary(), part.offsets
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(part.data)]
        array = pa.Array.from_buffers(kind, len(part.nulls), buffers)
        return array if kind == self.stored else array.cast(self.stored)

    def plain(self, array: pa.Array) -> pa.Array:
        """The values as they are stored."""
        if array.type == self.stored:
            return array
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.int8())
        if pa.types.is_date(array.type):
            array = array.cast(pa.date32()).cast(pa.int32())
        elif pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us", array.type.tz))
        return array.cast(self.stored)

    def restored(self, array: pa.Array) -> pa.Array:
        """The values as they were, from how they are stored."""
        if pa.types.is_dictionary(self.type):
            return _restored(array, self.type.value_type).dictionary_encode().cast(self.type)
        return _restored(array, self.type)


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that make a key."""

    columns: tuple[KeyColumn, ...]

    @staticmethod
    def of(schema: pa.Schema, names: str | Sequence[str], where: str) -> KeyColumns:
        """The key of a stream with `schema`."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if not chosen:
            raise GraphError(f"{where} has no key; name a column, or several")
        check_columns(schema, chosen, where)
        return KeyColumns(tuple(KeyColumn.of(schema.field(name)) for name in chosen))

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """What they are."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def hashes(self, batch: pa.RecordBatch) -> Array:
        """The hash of each key of a batch."""
        known = _known_hashes(batch)
        if known is not None:
            return known
        return self._hashes([column.plain(batch.column(column.name)) for column in self.columns])

    def strings_to_hash(self, batch: pa.RecordBatch) -> tuple[Array, Array, np.uint64] | None:
        """If the key of a batch is one string, never null and not hashed yet: the offsets and the bytes, and the seed
        of their hashes."""
        [column, *others] = self.columns
        if others or column.kind != "bytes" or batch.schema.get_field_index(HASHES) >= 0:
            return None
        array = column.plain(batch.column(column.name))
        return None if array.null_count else (*byte_strings(array), np.uint64(column.seed))

    def keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of a batch. They refer to its buffers where they can. Those of a dictionary are there once."""
        known = _known_hashes(batch)
        if len(self.columns) > 1:
            plain = [column.plain(batch.column(column.name)) for column in self.columns]
            return Keys(sealed(self._hashes(plain)) if known is None else known, *self._packed(plain))
        [column] = self.columns
        array = batch.column(column.name)
        if column.is_coded(array):
            return self.keys_of_dictionary(array)
        array = column.plain(array)
        return Keys(sealed(column.hashes(array)) if known is None else known, *column.octets(array))

    def keys_of_dictionary(self, array: pa.DictionaryArray) -> Keys:
        """The keys of rows that have them in a dictionary, without nulls."""
        [column] = self.columns
        values = column.plain(array.dictionary)
        return Keys(sealed(column.hashes(values)), *byte_strings(values), _NONE, codes_of(array))

    def keys_from_bytes(self, offsets: Array, data: Array, nulls: Array) -> Keys:
        """The keys that have these bytes."""
        offsets, data, nulls = sealed(offsets), sealed(padded(data)), sealed(nulls)
        return Keys(sealed(self._hashes(self._arrays(offsets, data, nulls))), offsets, data, nulls)

    def restored(self, offsets: Array, data: Array, nulls: Array) -> list[pa.Array]:
        """The columns of the keys that have these bytes."""
        arrays = self._arrays(offsets, data, nulls)
        return [column.restored(array) for column, array in zip(self.columns, arrays, strict=True)]

    def _hashes(self, arrays: list[pa.Array]) -> Array:
        each = [column.hashes(array) for column, array in zip(self.columns, arrays, strict=True)]
        if len(each) == 1:
            return each[0]
        out = empty(len(arrays[0]), np.uint64)
        hashing.hash_tuples(np.stack(each, axis=1), out)
        return out

    def _packed(self, arrays: list[pa.Array]) -> tuple[Array, Array, Array]:
        """The offsets and the bytes of each key of several columns, none of which is null as a whole."""
        parts = []
        for column, array in zip(self.columns, arrays, strict=True):
            if column.kind == "bytes":
                parts.append(composite_key.KeyPart(nulls_of(array), *byte_strings(array)))
            else:
                parts.append(
                    composite_key.KeyPart(nulls_of(array), np.zeros(0, np.int64), words_of(array).view(np.uint8))
                )
        offsets, data = composite_key.pack(parts)
        return sealed(offsets), sealed(padded(data)), _NONE

    def _arrays(self, offsets: Array, data: Array, nulls: Array) -> list[pa.Array]:
        """The columns of the keys that have these bytes, as they are stored."""
        if len(self.columns) > 1:
            parts = composite_key.unpack(offsets, data, [column.kind == "bytes" for column in self.columns])
        else:
            nulls = nulls if len(nulls) else np.zeros(len(offsets) - 1, np.bool_)
            if self.columns[0].kind == "bytes":
                parts = [composite_key.KeyPart(nulls, offsets, data)]
            else:
                parts = [composite_key.KeyPart(nulls, offsets[:0], composite_key.take_words(offsets[:-1], nulls, data))]
        return [column.array(part) for column, part in zip(self.columns, parts, strict=True)]


def check_columns(schema: pa.Schema, names: Iterable[str], where: str) -> None:
    """Raise unless a stream with `schema` has all these columns."""
    for name in names:
        if name not in schema.names:
            has = ", ".join(map(repr, schema.names))
            raise GraphError(f"{where} has no column {name!r}; it has {has}{hint(name, schema.names)}")


def _form(kind: pa.DataType) -> tuple[Any, int, pa.DataType] | None:
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "bytes", STR_SEED, kind
    if types.is_string_view(kind):
        return "bytes", STR_SEED, pa.large_string()
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes", BYTES_SEED, kind
    if types.is_fixed_size_binary(kind):
        return "bytes", BYTES_SEED, pa.binary()
    if types.is_uint64(kind):
        return "unsigned", INT_SEED, pa.uint64()
    if types.is_integer(kind) or types.is_boolean(kind):
        return "word", INT_SEED, pa.int64()
    if types.is_floating(kind):
        return "double", 0, pa.float64()
    if types.is_date(kind):
        return "word", DATE_SEED, pa.int64()
    if types.is_timestamp(kind) and kind.unit != "ns":
        return "word", ZONED_SEED if kind.tz else NAIVE_SEED, pa.int64()
    return None


def _restored(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(kind)
    if pa.types.is_date(kind):
        return array.cast(pa.int32()).cast(pa.date32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz)).cast(kind)
    return array.cast(kind)


def byte_strings(array: pa.Array) -> tuple[Array, Array]:
    """The offsets and the bytes of an array of strings, in place."""
    _, offsets, data = array.buffers()
    kind, size = (np.int64, 8) if array.type.id in _WIDE else (np.int32, 4)
    if offsets is None or not len(array):
        return sealed(np.zeros(1, kind)), sealed(np.zeros(WORD, np.uint8))
    found = np.frombuffer(offsets, kind, len(array) + 1, size * array.offset)
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return sealed(found), sealed(padded(octets))


_WIDE = frozenset({pa.large_string().id, pa.large_binary().id})
"""The types of strings whose offsets have 64 bits."""


def _known_hashes(batch: pa.RecordBatch) -> Array | None:
    """The hashes that a batch has brought along, if it has."""
    index = batch.schema.get_field_index(HASHES)
    return None if index < 0 else _words(batch.column(index))


def codes_of(array: pa.DictionaryArray) -> Array:
    """Which value of its dictionary each row of an array has."""
    return sealed(array.indices.to_numpy().astype(np.int32, copy=False))


def words_of(array: pa.Array) -> Array:
    """The 8 bytes of each number of an array, in place where they are as they should be: there is one zero, one NaN."""
    words = _words(array)
    if pa.types.is_floating(array.type):
        values = words.view(np.float64)
        odd = (values != values) | (values == 0)
        if odd.any():
            words = np.where(values != values, _NAN, np.where(values == 0, np.uint64(0), words))
    return sealed(words)


def _words(array: pa.Array) -> Array:
    _, data = array.buffers()
    if data is None:
        return sealed(np.zeros(len(array), np.uint64))
    return sealed(np.frombuffer(data, np.uint64, len(array), 8 * array.offset))


_NONE = sealed(np.zeros(0, np.bool_))


def nulls_of(array: pa.Array) -> Array:
    """Which values are null."""
    if not array.null_count:
        return sealed(np.zeros(len(array), np.bool_))
    return sealed(pc.is_null(array).to_numpy(zero_copy_only=False))
