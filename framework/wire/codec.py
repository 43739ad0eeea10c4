"""The one serializer: what a record is in bytes, on links and in stores. Never pickle.

A value decodes to exactly the type and value that it had: lists stay lists and tuples tuples, also nested and as keys
of a dict. msgpack carries its own types at C speed; `framework.wire.extensions` names the others. (msgpack gives no say
in two things: a `bytearray` or `memoryview` arrives as `bytes`, and its own `ExtType` is not for records.)

Records are mostly tuples, and a Python call per tuple is too slow. So rows that are all tuples of one length are
transposed (`zip`, in C) and travel as columns, and a column that is all tuples of one length likewise::

    [("a", (1, 2.0)), ("b", (3, 4.0))]   travels as   [[0, [0, 0]], [["a", "b"], [1, 3], [2.0, 4.0]]]
                                                       the shape     the columns

Decoding trusts nothing: whatever is wrong with the bytes, the outcome is `ProtocolError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

from msgpack import ExtType, Packer, unpackb

from framework.errors import ProtocolError, UnencodableRecord
from framework.wire import extensions
from framework.wire.extensions import look_in, register

__all__ = [
    "Buffer",
    "decode_rows",
    "decode_value",
    "encode_fields",
    "encode_rows",
    "encode_value",
    "look_in",
    "register",
    "transpose",
]

Buffer = bytes | memoryview

EXTENSION_DEPTH_MAX = 16
"""How deep tuples, sets and other extensions nest. The worst case of each level costs 220 KB of a thread's C stack."""

COLUMN_DEPTH_MAX = 8
"""How deep rows are transposed; tuples nested deeper travel as extensions."""

SLICE_ROWS = 1024
"""How many rows are transposed at once: `zip` goes round all its arguments per column, and these fit into a cache."""


def encode_rows(rows: list[Any], where: str = "this job") -> bytes:
    """The bytes of `rows`. What cannot be encoded raises `UnencodableRecord`, which says that `where` sent it."""
    columns: list[list[Any]] = []
    return encode_value([_shape_of(rows, columns, 0), columns], where)


def decode_rows(buffer: Buffer) -> list[Any]:
    """The rows that `encode_rows` made into `buffer`, or `ProtocolError`."""
    match decode_value(buffer):
        case [shape, list(columns)]:
            remaining = iter(columns)
            rows = _assemble(shape, remaining, 0)
            if not list(remaining):
                return rows
    raise ProtocolError("rows are not a shape and its columns")


def transpose(rows: Sequence[Any]) -> list[list[Any]]:
    """The columns of `rows`; `ValueError` if these differ in length. Hot path: everything per record is in C.

    >>> transpose([("tea", 2), ("milk", 1)])
    [['tea', 'milk'], [2, 1]]
    """
    columns = [list(column) for column in zip(*rows[:SLICE_ROWS], strict=True)]
    for start in range(SLICE_ROWS, len(rows), SLICE_ROWS):
        more = list(zip(*rows[start : start + SLICE_ROWS], strict=True))
        for column, values in zip(columns, more, strict=True):
            column += values
    return columns


def encode_value(value: Any, where: str = "this job") -> bytes:
    """The bytes of one value. What cannot be encoded raises `UnencodableRecord`, which says that `where` sent it."""
    try:
        return _pack(value)
    except _Unknown as error:
        raise UnencodableRecord(
            f"{where} sent a {error.type.__qualname__} to another worker, which msgpack cannot encode{error.detail}; "
            f"send a tuple, dict, str, bytes, int, float, bool, None, or a dataclass, or register a codec with "
            f"`codec.register`",
            detail=f"a {error.type.__qualname__}{error.detail}",
        ) from error.__cause__
    except (ValueError, OverflowError, RecursionError) as error:
        raise UnencodableRecord(
            f"{where} sent a record to another worker that refers to itself, is nested too deeply or is too large "
            f"({error}); send flat tuples and lists",
            detail=str(error),
        ) from error


def encode_fields(fields: tuple[Any, ...]) -> bytes:
    """The bytes of fields of our own, which can always be encoded. Tuples, and so `Product` times, become lists."""
    packed: bytes = Packer(unicode_errors="backslashreplace").pack(fields)
    return packed


def decode_value(buffer: Buffer) -> Any:
    """The value that `encode_value` made into `buffer`, or `ProtocolError`."""
    try:
        return _unpack(buffer, 0)
    except ProtocolError:
        raise
    except Exception as error:
        # A constructor, or a decode function of the job, may raise anything when it is given nonsense.
        raise ProtocolError(f"{len(buffer)} bytes do not decode: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    """The text of an error whose arguments came from a peer, and may be too large or too deep to print."""
    text = error.args[0] if error.args else ""
    return f"{type(error).__name__}: {text[:200]}" if isinstance(text, str) else type(error).__name__


class _Unknown(Exception):
    """A value of a type that has no code, or whose own encode function failed."""

    def __init__(self, cls: type, detail: str = "") -> None:
        super().__init__(cls, detail)
        self.type = cls
        self.detail = detail


def _shape_of(rows: list[Any], columns: list[list[Any]], depth: int) -> Any:
    """Append the columns of `rows` to `columns`; return their shape. Hot path: everything per record is in C."""
    if rows and type(rows[0]) is tuple and depth < COLUMN_DEPTH_MAX and set(map(type, rows)) == {tuple}:
        try:
            transposed = transpose(rows)
        except ValueError:
            transposed = []
        if transposed:
            return [_shape_of(column, columns, depth + 1) for column in transposed]
    columns.append(rows)
    return 0


def _assemble(shape: Any, columns: Iterator[Any], depth: int) -> list[Any]:
    """The rows of one shape, from as many of the columns as it takes."""
    if type(shape) is int and shape == 0:
        column = next(columns, None)
        if type(column) is list:
            return column
    elif type(shape) is list and shape and depth < COLUMN_DEPTH_MAX:
        parts = [_assemble(part, columns, depth + 1) for part in shape]
        try:
            return list(zip(*parts, strict=True))
        except ValueError as error:
            raise ProtocolError("the columns of rows differ in length") from error
    raise ProtocolError("rows have a shape that does not fit their columns")


def _pack(value: Any) -> bytes:
    packed: bytes
    try:
        packed = Packer(default=_EXTENDERS[0], strict_types=True).pack(value)
    except UnicodeEncodeError:
        # Lone surrogates are rare, and allowing for them makes every string three times as slow.
        packed = Packer(default=_EXTENDERS[0], strict_types=True, unicode_errors="surrogatepass").pack(value)
    return packed


def _extend(depth: int, value: Any) -> ExtType:
    """Called by msgpack for each value that it does not know, `depth` extensions deep."""
    extension = extensions.by_type(type(value)) or _discover(type(value))
    if depth == EXTENSION_DEPTH_MAX:
        raise ValueError(f"more than {EXTENSION_DEPTH_MAX} tuples or other extensions in each other")
    try:
        plain = extension.lower(value)
    except Exception as error:
        raise _Unknown(type(value), f" (its codec raised {type(error).__name__}: {error})") from error
    packer = Packer(default=_EXTENDERS[depth + 1], strict_types=True, unicode_errors="surrogatepass", buf_size=256)
    return ExtType(extension.code, packer.pack(plain))


def _discover(cls: type) -> extensions.Extension:
    try:
        extension = extensions.discover(cls)
    except extensions.NotFound as error:
        raise _Unknown(cls, f" ({error})") from error
    if extension is None:
        raise _Unknown(cls)
    return extension


def _unpack(buffer: Buffer, depth: int) -> Any:
    return unpackb(buffer, ext_hook=_LIFTERS[depth], strict_map_key=False, unicode_errors="surrogatepass")


def _lift(depth: int, code: int, payload: bytes) -> Any:
    return extensions.lift(code, _unpack(payload, depth + 1))


def _refuse_depth(code: int, payload: bytes) -> NoReturn:
    raise ProtocolError(f"a value has more than {EXTENSION_DEPTH_MAX} tuples or other extensions in each other")


_EXTENDERS: list[Callable[[Any], ExtType]] = [partial(_extend, depth) for depth in range(EXTENSION_DEPTH_MAX + 1)]
_LIFTERS: list[Callable[[int, bytes], Any]] = [
    *(partial(_lift, depth) for depth in range(EXTENSION_DEPTH_MAX)),
    _refuse_depth,
]
