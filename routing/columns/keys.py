"""Keys in columns: the columns that make a key, its hash, and its encoding as bytes, by which tables compare keys.

A key is one column or several. Its bytes are those of a string, or the 8 bytes of a number; a key that is null has
none. A composite key is packed (`routing.columns.composite_key`). Hashes are those of the same keys in rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.errors import GraphError, ProtocolError
from framework.suggest import hint
from routing.columns import composite_key, hashing
from routing.columns.memory import WORD, Array, empty, padded
from routing.hashing import BYTES_SEED, DATE_SEED, INT_SEED, NAIVE_SEED, STR_SEED, ZONED_SEED

RESERVED = "\0"
"""The first character of the names of internal columns."""

HASHES = RESERVED + "hashes"
"""The column of key hashes that a batch carries to its owner."""

_INT32_MAX = 2**31 - 1
"""The largest offset of strings that are not large."""

_NAN = np.array([np.nan]).view(np.uint64)[0]


def read_only(array: Array) -> Array:
    """Make an array read-only, as Arrow's are: to numba that is another type, and would compile kernels twice."""
    array.setflags(write=False)
    return array


_NO_CODES = read_only(np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a batch: the hash of each, and its bytes, between offsets."""

    hashes: Array
    offsets: Array
    data: Array
    nulls: Array
    """A mask of those that are null; empty if none is."""
    codes: Array = field(default_factory=lambda: _NO_CODES)
    """The dictionary code of each row, if keys are dictionary-encoded; else empty, and key `n` is that of row `n`."""

    def __len__(self) -> int:
        return len(self.hashes)

    def hashes_at(self, rows: Array) -> Array:
        """The hashes of the keys of some rows."""
        found: Array = self.hashes[self.codes[rows] if len(self.codes) else rows]
        return found

    def slice(self, start: int, end: int) -> Keys:
        """The keys of a slice of rows, without a copy."""
        if len(self.codes):
            return replace(self, codes=self.codes[start:end])
        return Keys(self.hashes[start:end], self.offsets[start : end + 1], self.data, self.nulls[start:end])

    def arguments(self) -> tuple[Array, ...]:
        """The arguments of a loop over rows. The last caches the entry of each key of a dictionary, -1 until found."""
        entries = np.full(len(self.hashes), -1) if len(self.codes) else _NO_ENTRIES
        return self.hashes, self.offsets, self.data, self.nulls, self.codes, entries


_NO_ENTRIES = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of a key."""

    name: str
    type: pa.DataType
    kind: Literal["bytes", "word", "unsigned", "double"]
    seed: int
    stored: pa.DataType
    """The type that values are cast to before they are hashed: a string, or a number of 8 bytes."""

    @staticmethod
    def of(field: pa.Field) -> KeyColumn:
        """The key column that `field` describes."""
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        match _storage_of(plain):
            case kind, seed, stored:
                return KeyColumn(field.name, field.type, kind, seed, stored)
        raise GraphError(
            f"column {field.name!r} is {field.type} and cannot be a key; let it be a string, a number, a boolean, a "
            f"date or a timestamp of microseconds or less, for instance with `pc.cast` in a `map`"
        )

    def hashes(self, array: pa.Array) -> Array:
        """The hash of each value, of the type `stored`."""
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

    def uses_dictionary(self, array: pa.Array) -> bool:
        """Whether keys are hashed and looked up once per entry of the array's dictionary: that it is no larger."""
        if not pa.types.is_dictionary(array.type) or self.kind != "bytes":
            return False
        pays = 0 < len(array.dictionary) <= len(array)
        return pays and not array.null_count and not array.dictionary.null_count

    def octets(self, array: pa.Array) -> tuple[Array, Array, Array]:
        """The offsets and the bytes of each value, and a mask of nulls, empty without any."""
        nulls = nulls_of(array) if array.null_count else _NO_NULLS
        if self.kind == "bytes":
            return *byte_strings(array), nulls
        return read_only(np.arange(0, 8 * len(array) + 8, 8)), words_of(array).view(np.uint8), nulls

    def array(self, part: composite_key.KeyPart) -> pa.Array:
        """The values that have these bytes, of the type `stored`."""
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

    def to_stored(self, array: pa.Array) -> pa.Array:
        """Cast values of the column's type to the type `stored`."""
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

    def from_stored(self, array: pa.Array) -> pa.Array:
        """Cast values back to the column's type."""
        if pa.types.is_dictionary(self.type):
            return _from_stored(array, self.type.value_type).dictionary_encode().cast(self.type)
        return _from_stored(array, self.type)


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
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns as a schema."""
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def hashes(self, batch: pa.RecordBatch) -> Array:
        """The hash of each key of a batch."""
        known = _known_hashes(batch)
        if known is not None:
            return known
        return self._hashes([column.to_stored(batch.column(column.name)) for column in self.columns])

    def strings_to_hash(self, batch: pa.RecordBatch) -> tuple[Array, Array, np.uint64] | None:
        """The offsets, bytes and hash seed of a key that is one string column, without nulls and not hashed yet."""
        [column, *others] = self.columns
        if others or column.kind != "bytes" or batch.schema.get_field_index(HASHES) >= 0:
            return None
        array = column.to_stored(batch.column(column.name))
        return None if array.null_count else (*byte_strings(array), np.uint64(column.seed))

    def keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of a batch, without a copy where possible; those of a dictionary are there once."""
        known = _known_hashes(batch)
        if len(self.columns) > 1:
            stored = [column.to_stored(batch.column(column.name)) for column in self.columns]
            return Keys(read_only(self._hashes(stored)) if known is None else known, *self._pack(stored))
        [column] = self.columns
        array = batch.column(column.name)
        if column.uses_dictionary(array):
            return self.keys_of_dictionary(array)
        array = column.to_stored(array)
        return Keys(read_only(column.hashes(array)) if known is None else known, *column.octets(array))

    def keys_of_dictionary(self, array: pa.DictionaryArray) -> Keys:
        """The keys of dictionary-encoded rows, without nulls."""
        [column] = self.columns
        values = column.to_stored(array.dictionary)
        return Keys(read_only(column.hashes(values)), *byte_strings(values), _NO_NULLS, codes_of(array))

    def keys_from_bytes(self, offsets: Array, data: Array, nulls: Array) -> Keys:
        """The keys that have these bytes; or `ProtocolError`, if they are no such keys."""
        offsets, data, nulls = read_only(offsets), read_only(padded(data)), read_only(nulls)
        self._check_bytes(offsets, nulls)
        return Keys(read_only(self._hashes(self._arrays(offsets, data, nulls))), offsets, data, nulls)

    def decode(self, offsets: Array, data: Array, nulls: Array) -> list[pa.Array]:
        """The columns of the keys that have these bytes."""
        arrays = self._arrays(offsets, data, nulls)
        return [column.from_stored(array) for column, array in zip(self.columns, arrays, strict=True)]

    def _hashes(self, arrays: list[pa.Array]) -> Array:
        by_column = [column.hashes(array) for column, array in zip(self.columns, arrays, strict=True)]
        if len(by_column) == 1:
            return by_column[0]
        out = empty(len(arrays[0]), np.uint64)
        hashing.hash_tuples(np.stack(by_column, axis=1), out)
        return out

    def _pack(self, arrays: list[pa.Array]) -> tuple[Array, Array, Array]:
        """The offsets and the bytes of composite keys, none of which is null as a whole."""
        parts = []
        for column, array in zip(self.columns, arrays, strict=True):
            if column.kind == "bytes":
                parts.append(composite_key.KeyPart(nulls_of(array), *byte_strings(array)))
            else:
                parts.append(
                    composite_key.KeyPart(nulls_of(array), np.zeros(0, np.int64), words_of(array).view(np.uint8))
                )
        offsets, data = composite_key.pack(parts)
        return read_only(offsets), read_only(padded(data)), _NO_NULLS

    def _check_bytes(self, offsets: Array, nulls: Array) -> None:
        """Raise `ProtocolError` unless keys of a number have 8 bytes. `composite_key` checks composite ones."""
        if len(self.columns) > 1:
            if nulls.any():
                raise ProtocolError("a key of several columns that is null as a whole")
        elif self.columns[0].kind != "bytes":
            unfit = np.diff(offsets) != 8
            if len(nulls):
                unfit &= ~nulls
            if unfit.any():
                raise ProtocolError(f"a key of {self.columns[0].type} that has not 8 bytes")

    def _arrays(self, offsets: Array, data: Array, nulls: Array) -> list[pa.Array]:
        """The columns of the keys that have these bytes, of the types `stored`."""
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


def _storage_of(kind: pa.DataType) -> tuple[Any, int, pa.DataType] | None:
    """How keys of a type are hashed: the kind, the seed and the type `stored`; None if the type cannot be a key."""
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


def _from_stored(array: pa.Array, kind: pa.DataType) -> pa.Array:
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
    """The offsets and the bytes of an array of strings, without a copy.

    Raises `ProtocolError` for another type, such as views: a peer may send what the stream does not have.
    """
    if array.type.id not in _STRINGS:
        raise ProtocolError(f"a column of {array.type} where strings were expected")
    _, offsets, data = array.buffers()
    kind, size = (np.int64, 8) if array.type.id in _WIDE else (np.int32, 4)
    if offsets is None or not len(array):
        return read_only(np.zeros(1, kind)), read_only(np.zeros(WORD, np.uint8))
    found = np.frombuffer(offsets, kind, len(array) + 1, size * array.offset)
    octets = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return read_only(found), read_only(padded(octets))


_WIDE = frozenset({pa.large_string().id, pa.large_binary().id})
"""The types of strings whose offsets have 64 bits."""

_STRINGS = _WIDE | {pa.string().id, pa.binary().id}


def _known_hashes(batch: pa.RecordBatch) -> Array | None:
    """The hashes that a batch carries, if it does."""
    index = batch.schema.get_field_index(HASHES)
    if index < 0:
        return None
    hashes = batch.column(index)
    if hashes.type != pa.uint64():
        raise ProtocolError(f"hashes of keys that came as {hashes.type}")
    return _words(hashes)


def codes_of(array: pa.DictionaryArray) -> Array:
    """The dictionary code of each row of an array."""
    return read_only(array.indices.to_numpy().astype(np.int32, copy=False))


def words_of(array: pa.Array) -> Array:
    """The 8 bytes of each number of an array; floats are normalised to one zero and one NaN."""
    words = _words(array)
    if pa.types.is_floating(array.type):
        values = words.view(np.float64)
        odd = (values != values) | (values == 0)
        if odd.any():
            words = np.where(values != values, _NAN, np.where(values == 0, np.uint64(0), words))
    return read_only(words)


def _words(array: pa.Array) -> Array:
    _, data = array.buffers()
    if data is None:
        return read_only(np.zeros(len(array), np.uint64))
    return read_only(np.frombuffer(data, np.uint64, len(array), 8 * array.offset))


_NO_NULLS = read_only(np.zeros(0, np.bool_))


def nulls_of(array: pa.Array) -> Array:
    """A mask of the values that are null."""
    if not array.null_count:
        return read_only(np.zeros(len(array), np.bool_))
    return read_only(pc.is_null(array).to_numpy(zero_copy_only=False))
