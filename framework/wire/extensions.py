"""The types that the codec knows beyond msgpack's own: a closed set, the program's own classes, and registered ones.

An extension lowers a value to something msgpack has (a list, bytes or a str, whose items may need lowering in turn) and
lifts it back to exactly the same type and value. Types are matched exactly: a subclass is another type. The codec
(`framework.wire.codec`) decides when to lower and lift; nothing here sees a byte of the wire.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from framework.errors import ConfigError
from framework.wire import numpy_scalars
from framework.wire.class_codecs import NotFound, classes_looked_in, codec_of, find, look_in, name_of

__all__ = [
    "NUMPY",
    "REGISTERED",
    "Extension",
    "NotFound",
    "by_type",
    "discover",
    "lift",
    "look_in",
    "register",
    "registered",
    "restore",
]

NUMPY = 17
"""The code of NumPy's scalars; the payload says of which type."""

REGISTERED = 127
"""The code of all types of the user's; the payload names which."""


@dataclass(frozen=True, slots=True)
class Extension:
    """How values of one exact type travel: as a `plain` value under a `code`."""

    code: int
    cls: type
    plain: type
    lower: Callable[[Any], Any]
    lift: Callable[[Any], Any]


def register(
    cls: type,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
) -> None:
    """Let values of exactly `cls` travel between processes and into stores.

    NamedTuples, dataclasses and Enums that are defined outside of functions travel without it. Register them to keep
    what is captured readable when their module is renamed, or where a function defines them. For other types, `encode`
    turns a value into something that can travel already, and `decode` turns that back. The `name` stands for the type
    on the wire and must be the same in every process; it is the class's qualified name unless given. Register at import
    time of the job's module.
    """
    if cls in _BUILT_IN or cls in (int, float, bool, str, bytes, bytearray, list, dict, type(None)):
        raise ConfigError(f"{cls.__name__} can be sent as it is; register a type of your own")
    if (encode is None) != (decode is None):
        raise ConfigError(f"a codec of {cls.__name__} needs both `encode` and `decode`, or neither")
    name = cls.__qualname__ if name is None else name
    other = _by_name.get(name)
    if other is not None and (other.cls.__module__, other.cls.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ConfigError(
            f"the name {name!r} stands for {other.cls.__module__}.{other.cls.__qualname__} already; "
            f"give {cls.__module__}.{cls.__qualname__} another `name`"
        )
    if encode is not None and decode is not None:
        _add(name, cls, encode, decode)
        return
    derived = codec_of(cls)
    if derived is None:
        raise ConfigError(
            f"{cls.__name__} is not a NamedTuple, an Enum or a dataclass that keeps nothing but its fields; "
            f"register it with `encode` and `decode`"
        )
    _add(name, cls, derived.lower, derived.lift)


def discover(cls: type) -> Extension | None:
    """The extension for values of exactly `cls`, when the first is met; `NotFound` if no receiver could make them."""
    if numpy_scalars.is_scalar(cls):
        extension = _by_type[cls] = Extension(NUMPY, cls, list, numpy_scalars.lower, numpy_scalars.lift)
        return extension
    derived = codec_of(cls)
    return None if derived is None else _add(name_of(cls), cls, derived.lower, derived.lift)


def registered() -> dict[str, Extension]:
    """The types that other processes may not have, by name: the registered ones, and those of code without a module."""
    for cls in classes_looked_in():
        if cls not in _by_type:
            discover(cls)
    return dict(_by_name)


def restore(extensions: Mapping[str, Extension]) -> None:
    """Register what was registered in another process, from which this one has its classes, too."""
    for name, extension in extensions.items():
        _by_name[name] = extension
        _by_type[extension.cls] = extension


def by_type(cls: type) -> Extension | None:
    """The extension for values of exactly `cls`."""
    return _by_type.get(cls)


def lift(code: int, plain: Any) -> Any:
    """The value that was lowered to `plain` under `code`; raises whatever a bad `plain` makes its constructor raise."""
    if code == REGISTERED:
        name, value = plain
        return _named(name).lift(value)
    extension = _by_code[code]
    if type(plain) is not extension.plain:
        raise ValueError(f"{extension.cls.__name__} from a {type(plain).__name__}")
    return extension.lift(plain)


def _add(name: str, cls: type, lower: Callable[[Any], Any], lift: Callable[[Any], Any]) -> Extension:
    extension = Extension(REGISTERED, cls, list, lambda value: [name, lower(value)], lift)
    _by_name[name] = _by_type[cls] = extension
    return extension


def _named(name: Any) -> Extension:
    if type(name) is not str:
        raise ValueError("a type without a name")
    extension = _by_name.get(name)
    if extension is None:
        cls = find(name)
        extension = discover(cls) if cls is not None and codec_of(cls) is not None else None
    if extension is None:
        raise ValueError(f"type {name[:80]!r} is neither registered here nor defined in a module that is loaded")
    return extension


def _big_int(octets: bytes) -> int:
    return int.from_bytes(octets, "big", signed=True)


def _big_int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _datetime_fields(value: datetime) -> list[Any]:
    return [*value.timetuple()[:6], value.microsecond, value.tzinfo, value.fold]


def _datetime(fields: list[Any]) -> datetime:
    year, month, day, hour, minute, second, microsecond, zone, fold = fields
    return datetime(year, month, day, hour, minute, second, microsecond, _zone(zone), fold=fold)


def _time_fields(value: time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.tzinfo, value.fold]


def _time(fields: list[Any]) -> time:
    hour, minute, second, microsecond, zone, fold = fields
    return time(hour, minute, second, microsecond, _zone(zone), fold=fold)


def _zone(value: Any) -> tzinfo | None:
    if value is not None and not isinstance(value, tzinfo):
        raise ValueError(f"a time zone that is a {type(value).__name__}")
    return value


def _timezone_fields(value: timezone) -> list[Any]:
    return list(value.__getinitargs__())  # type: ignore[attr-defined]


def _factory_and_entries(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise ValueError(f"{factory!r} makes its values; of defaultdicts, those of {', '.join(_FACTORIES)} travel")
    return [factory.__name__ if factory is not None else None, dict(value)]


def _defaultdict(plain: list[Any]) -> defaultdict[Any, Any]:
    name, entries = plain
    if type(entries) is not dict:
        raise ValueError(f"a defaultdict from a {type(entries).__name__}")
    return defaultdict(_FACTORIES[name] if name is not None else None, entries)


def _deque(plain: list[Any]) -> deque[Any]:
    items, length_max = plain
    if type(items) is not list:
        raise ValueError(f"a deque from a {type(items).__name__}")
    return deque(items, length_max)


def _zone_key(value: ZoneInfo) -> str:
    if value.key is None:
        raise ValueError("a ZoneInfo without a key cannot be found again elsewhere")
    return value.key


_EXTENSIONS = (
    Extension(1, tuple, list, list, tuple),
    Extension(2, int, bytes, _big_int_bytes, _big_int),
    Extension(3, set, list, list, set),
    Extension(4, frozenset, list, list, frozenset),
    Extension(5, datetime, list, _datetime_fields, _datetime),
    Extension(6, date, list, lambda value: [value.year, value.month, value.day], lambda fields: date(*fields)),
    Extension(7, time, list, _time_fields, _time),
    Extension(
        8,
        timedelta,
        list,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda fields: timedelta(*fields),
    ),
    Extension(9, timezone, list, _timezone_fields, lambda fields: timezone(*fields)),
    Extension(10, ZoneInfo, str, _zone_key, ZoneInfo),
    Extension(11, Decimal, str, str, Decimal),
    Extension(12, UUID, bytes, lambda value: value.bytes, lambda octets: UUID(bytes=octets)),
    Extension(13, complex, list, lambda value: [value.real, value.imag], lambda fields: complex(*fields)),
    Extension(14, Counter, dict, dict, Counter),
    Extension(15, deque, list, lambda value: [list(value), value.maxlen], _deque),
    Extension(16, defaultdict, list, _factory_and_entries, _defaultdict),
)
_BUILT_IN = frozenset(extension.cls for extension in _EXTENSIONS)
_FACTORIES: dict[str, type] = {
    cls.__name__: cls for cls in (int, float, str, bytes, bool, list, dict, set, tuple, Counter, deque)
}
_by_code = {extension.code: extension for extension in _EXTENSIONS}
_by_code[NUMPY] = Extension(NUMPY, object, list, numpy_scalars.lower, numpy_scalars.lift)
_by_type: dict[type, Extension] = {extension.cls: extension for extension in _EXTENSIONS}
_by_name: dict[str, Extension] = {}
