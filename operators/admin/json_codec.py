"""Dataclasses to JSON and back: the one codec of what workers, supervisor and command line tell each other.

A dataclass is an object with its fields, without those that have their default. A time of a nested scope is a pair, as
`[4, 1]`. A class with `to_dict` and `from_dict` says itself what it is. What is read is checked field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from framework.errors import WorldError
from framework.progress.order import Product, Time

T = TypeVar("T")


class MalformedMessage(WorldError):
    """What was read is not what was to be read."""


def to_json(value: Any) -> Any:
    """A value as JSON has it.

    >>> to_json({3: Product(Product(4, 1), 2)})
    {'3': [[4, 1], 2]}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Product):
        return [to_json(value.outer), value.inner]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): to_json(part) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [to_json(part) for part in value]
    assert is_dataclass(value), f"{value!r} has no form in JSON"
    parts = {one.name: (getattr(value, one.name), one.default) for one in fields(value)}
    return {name: to_json(part) for name, (part, default) in parts.items() if default is MISSING or part != default}


@overload
def from_json(kind: type[T], document: Any) -> T: ...
@overload
def from_json(kind: Any, document: Any) -> Any: ...
def from_json(kind: Any, document: Any) -> Any:
    """The value of type `kind` that `to_json` made into `document`; `MalformedMessage` if it is none.

    >>> from_json(dict[int, Time], {"3": [[4, 1], 2]})
    {3: ((4, 1), 2)}
    >>> from_json(tuple[int, ...], [1, "2"])
    Traceback (most recent call last):
    operators.admin.json_codec.MalformedMessage: [1] is '2', not int; the other end may be another version of Hailer
    """
    return _reader(kind)(document, "")


_Reader = Callable[[Any, str], Any]
"""Makes a value from a document, given the path of the document in the message."""


@cache
def _reader(kind: Any) -> _Reader:
    """How values of a type are read."""
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    arguments = get_args(kind)
    match get_origin(kind) or kind:
        case _ if kind == Time:
            return _read_time
        case origin if origin in (Union, UnionType):
            [present] = [argument for argument in arguments if argument is not NoneType]
            return partial(_read_optional, _reader(present))
        case origin if origin is Literal:
            return partial(_read_one_of, arguments)
        case origin if origin is tuple:
            return partial(_read_tuple, _reader(arguments[0]))
        case origin if origin is dict:
            return partial(_read_dict, _reader(arguments[1]), _key_reader(arguments[0]))
        case origin if hasattr(origin, "from_dict"):
            return lambda document, path: origin.from_dict(document)
        case origin if is_dataclass(origin):
            return partial(_read_dataclass, origin, _field_readers(origin))
        case origin:
            return partial(_read_plain, (int, float) if origin is float else (origin,))


def _field_readers(kind: Any) -> dict[str, tuple[_Reader, bool]]:
    """How each field is read, and whether it must be there."""
    hints = get_type_hints(kind)
    return {one.name: (_reader(hints[one.name]), one.default is MISSING) for one in fields(kind)}


def _key_reader(kind: Any) -> type:
    plain: type = getattr(kind, "__supertype__", kind)
    return plain


def _read_dataclass(kind: Any, readers: dict[str, tuple[_Reader, bool]], document: Any, path: str) -> Any:
    if not isinstance(document, dict):
        raise _malformed(path, document, kind.__name__)
    for name, (_, needed) in readers.items():
        if needed and name not in document:
            raise MalformedMessage(f"{path or kind.__name__} lacks {name!r}; {_VERSIONS}")
    for name in document:
        if name not in readers:
            raise MalformedMessage(f"{path or kind.__name__} has {name!r}, which is not known here; {_VERSIONS}")
    return kind(**{name: readers[name][0](part, f"{path}.{name}") for name, part in document.items()})


def _read_optional(reader: _Reader, document: Any, path: str) -> Any:
    return None if document is None else reader(document, path)


def _read_tuple(reader: _Reader, document: Any, path: str) -> Any:
    if not isinstance(document, list):
        raise _malformed(path, document, "list")
    return tuple([reader(part, f"{path}[{index}]") for index, part in enumerate(document)])


def _read_dict(reader: _Reader, key: type, document: Any, path: str) -> Any:
    if not isinstance(document, dict):
        raise _malformed(path, document, "object")
    try:
        return {key(name): reader(part, f"{path}.{name}") for name, part in document.items()}
    except ValueError as error:  # of the key
        raise _malformed(path, document, f"object with keys of {key.__name__}") from error


def _read_time(document: Any, path: str) -> Time:
    if type(document) is int:
        return document
    if isinstance(document, list) and len(document) == 2 and type(document[1]) is int:
        return Product(_read_time(document[0], path), document[1])
    raise _malformed(path, document, "time")


def _read_one_of(known: tuple[Any, ...], document: Any, path: str) -> Any:
    if document not in known:
        raise _malformed(path, document, f"one of {', '.join(map(repr, known))}")
    return document


def _read_plain(kinds: tuple[type, ...], document: Any, path: str) -> Any:
    if kinds == (NoneType,) or type(document) in kinds:
        return document
    raise _malformed(path, document, kinds[-1].__name__)


_VERSIONS = "the other end may be another version of Hailer"


def _malformed(path: str, document: Any, wanted: str) -> MalformedMessage:
    shown = repr(document)
    return MalformedMessage(f"{path.lstrip('.') or 'the message'} is {shown[:80]}, not {wanted}; {_VERSIONS}")
