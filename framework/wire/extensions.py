"""The closed set of types that the codec knows beyond msgpack's own, and the user's registered ones.

An extension lowers a value to something msgpack has (a list, bytes or a str, whose items may need lowering in turn) and
lifts it back to exactly the same type and value. Types are matched exactly: a subclass is another type. The codec
(`framework.wire.codec`) decides when to lower and lift; nothing here sees a byte of the wire.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from framework.errors import ConfigError

REGISTERED = 127
"""The code of all user types; the payload names which."""


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

    A NamedTuple, a dataclass or an Enum needs nothing else. For other types, `encode` turns a value into something
    that can travel already, and `decode` turns that back. The `name` stands for the type on the wire and must be the
    same in every process; it is the class's qualified name unless given. Register at import time of the job's module.
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
    if encode is None or decode is None:
        encode, decode = _derive(cls)
    named, lower = name, encode
    extension = Extension(REGISTERED, cls, list, lambda value: [named, lower(value)], decode)
    _by_name[name] = extension
    _by_type[cls] = extension


def registered() -> dict[str, Extension]:
    """What was registered in this process so far, by name."""
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
        if type(name) is not str or name not in _by_name:
            raise ValueError("a type that is not registered here")
        return _by_name[name].lift(value)
    extension = _by_code[code]
    if type(plain) is not extension.plain:
        raise ValueError(f"{extension.cls.__name__} from a {type(plain).__name__}")
    return extension.lift(plain)


def _derive(cls: type) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if issubclass(cls, tuple) and hasattr(cls, "_make"):
        return list, cls._make
    if issubclass(cls, Enum):
        return (lambda member: member.name), (lambda name: cls[name])
    if dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
        if all(item.init for item in fields):
            names = [item.name for item in fields]
            return (
                lambda value: [getattr(value, item) for item in names],
                lambda values: cls(**dict(zip(names, values, strict=True))),
            )
    raise ConfigError(
        f"{cls.__name__} is not a NamedTuple, an Enum or a dataclass whose fields are all arguments; "
        f"register it with `encode` and `decode`"
    )


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
)
_BUILT_IN = frozenset(extension.cls for extension in _EXTENSIONS)
_by_code = {extension.code: extension for extension in _EXTENSIONS}
_by_type: dict[type, Extension] = {extension.cls: extension for extension in _EXTENSIONS}
_by_name: dict[str, Extension] = {}
