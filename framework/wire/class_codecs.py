"""How values of a program's own dataclasses, named tuples and enums travel, and where a receiver finds their classes.

A value becomes its fields, its items or its member's name, beside the name of its class, `orders:Order`. That is looked
up in the modules that are loaded here; nothing is imported because a peer names it, and neither `__init__` nor
`__post_init__` is called: the fields are as they were. Not found are classes of Python itself and of the packages that
say `__tracebackhide__ = True`, this one and those built on it: theirs travel if they are registered.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol

_namespaces: dict[str, Mapping[str, Any]] = {}
"""The globals of modules that are not among `sys.modules`, or not under their own name."""


class ClassCodec(Protocol):
    """How values of one class travel."""

    def lower(self, value: Any) -> Any:
        """What stands for a value."""

    def lift(self, plain: Any) -> Any:
        """The value again."""


class NotFound(Exception):
    """A class that other processes could not find."""


@dataclass(frozen=True, slots=True)
class FieldsCodec:
    """A dataclass as the values of its fields, those without a parameter included."""

    cls: type
    names: tuple[str, ...]

    def lower(self, value: Any) -> list[Any]:
        attributes = getattr(value, "__dict__", ())
        if not set(attributes) <= set(self.names):
            others = [
                name
                for name in attributes
                if name not in self.names and not isinstance(getattr(self.cls, name, None), cached_property)
            ]
            if others:
                raise ValueError(f"{others[0]!r} is an attribute of it, and no field")
        return [getattr(value, name) for name in self.names]

    def lift(self, plain: Any) -> Any:
        value: Any = object.__new__(self.cls)
        for name, part in zip(self.names, _checked(plain, list), strict=True):
            object.__setattr__(value, name, part)
        return value


@dataclass(frozen=True, slots=True)
class ItemsCodec:
    """A named tuple as its items."""

    cls: type
    length: int

    def lower(self, value: Any) -> list[Any]:
        for name in getattr(value, "__dict__", ()):
            raise ValueError(f"{name!r} is an attribute of it, and no item")
        return list(value)

    def lift(self, plain: Any) -> Any:
        if len(_checked(plain, list)) != self.length:
            raise ValueError(f"{len(plain)} items of {self.length}")
        return tuple.__new__(self.cls, plain)


@dataclass(frozen=True, slots=True)
class MemberCodec:
    """A member of an enum as its name."""

    cls: type[Enum]

    def lower(self, value: Any) -> str:
        name = value.name
        if self.cls.__members__.get(name) is not value:
            raise ValueError("it has no name")
        return str(name)

    def lift(self, plain: Any) -> Any:
        return self.cls.__members__[_checked(plain, str)]


@dataclass(frozen=True, slots=True)
class FlagCodec:
    """Flags, which need not have a name, as their value."""

    cls: type[Flag]

    def lower(self, value: Any) -> int:
        return int(value.value)

    def lift(self, plain: Any) -> Any:
        return self.cls(_checked(plain, int))


def codec_of(cls: type) -> ClassCodec | None:
    """How values of a class travel; None if it is no dataclass, named tuple or enum, or keeps more than its fields."""
    if issubclass(cls, Flag):
        return FlagCodec(cls)
    if issubclass(cls, Enum):
        return MemberCodec(cls)
    if issubclass(cls, tuple):
        return ItemsCodec(cls, len(cls._fields)) if hasattr(cls, "_fields") else None
    if dataclasses.is_dataclass(cls):
        names = tuple(item.name for item in dataclasses.fields(cls))
        if set(_slots(cls)) <= {*names, "__dict__", "__weakref__"} and _is_bare(cls):
            return FieldsCodec(cls, names)
    return None


def name_of(cls: type) -> str:
    """The name by which other processes find a class; raises `NotFound` if they would not."""
    name = f"{cls.__module__}:{cls.__qualname__}"
    if find(name) is cls:
        return name
    if "<locals>" in cls.__qualname__:
        raise NotFound("it is defined in a function, where other workers cannot find it; define it outside")
    if _namespace(cls.__module__) is None:
        raise NotFound(f"it is of module {cls.__module__}, whose types have to be registered")
    raise NotFound(f"module {cls.__module__} has no {cls.__qualname__} by which other workers could find it")


def find(name: str) -> type | None:
    """The class that a name stands for, among what is loaded."""
    module, _, path = name.partition(":")
    found: Any = None
    holder = _namespace(module)
    for part in path.split("."):
        found = holder.get(part) if holder is not None else None
        holder = vars(found) if isinstance(found, type) else None
    if isinstance(found, type) and (found.__module__, found.__qualname__) == (module, path):
        return found
    return None


def look_in(namespace: Mapping[str, Any]) -> None:
    """Find classes in these globals, too: of code that was run, or came here, without a module."""
    _namespaces[str(namespace.get("__name__"))] = namespace


def classes_looked_in() -> Iterator[type]:
    """The classes with a codec that the globals given to `look_in` define."""
    for name, namespace in list(_namespaces.items()):
        waiting = [value for value in list(namespace.values()) if isinstance(value, type)]
        while waiting:
            cls = waiting.pop()
            if cls.__module__ == name:
                waiting += [value for value in vars(cls).values() if isinstance(value, type) and value is not cls]
                if find(f"{name}:{cls.__qualname__}") is cls and codec_of(cls) is not None:
                    yield cls


def _namespace(module: str) -> Mapping[str, Any] | None:
    """The globals of a module, unless it is one whose types have to be registered."""
    if module in _namespaces:
        return _namespaces[module]
    root = module.partition(".")[0]
    loaded = sys.modules.get(module)
    if not isinstance(loaded, ModuleType) or root in sys.stdlib_module_names:
        return None
    package = sys.modules.get(root)
    if package is not None and vars(package).get("__tracebackhide__") is True:
        return None
    return vars(loaded)


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _is_bare(cls: type) -> bool:
    """Whether its values hold nothing but attributes, unlike those of a class derived from `dict`, say."""
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


def _checked(plain: Any, cls: type) -> Any:
    if type(plain) is not cls:
        raise ValueError(f"a {cls.__name__} is due, and a {type(plain).__name__} came")
    return plain
