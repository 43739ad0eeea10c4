"""Whether two workers are in the same state: a digest of everything that their behaviour can depend on.

It walks whatever is reachable from a worker and its program: fields, closures, the frames of suspended generators. What
it has not been told to leave out it takes in, so a field that is added somewhere tomorrow counts from tomorrow on, and
an object that it cannot look into raises. Dictionaries and sets are compared without regard to order. A program must
keep its place in its variables: an iterator that a `for` loop holds is out of sight.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from typing import Any

from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from framework.events import Events
from framework.progress.domain import Domain
from framework.progress.graph import Compiled
from framework.simulation.network import Network

FIXED = (Activator, Compiled, Domain, Events, Network, Scope)
"""What does not change once it is there, or belongs to the simulation."""

COUNTERS = frozenset({"steps", "traffic", "_sent", "_sent_since_step"})
"""Fields that count what has happened and decide nothing that a small program can notice."""

_PLAIN = frozenset((type(None), bool, int, float, str, bytes, range))
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, Enum)


def fingerprint(*roots: object) -> bytes:
    """Equal for roots that cannot be told apart."""
    walk = _Walk()
    for root in roots:
        walk.visit(root)
    return blake2b(repr(walk.tokens).encode(), digest_size=16).digest()


class _Walk:
    def __init__(self) -> None:
        self.tokens: list[object] = []
        self._seen: dict[int, int] = {}

    def visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self.tokens.append(value)
        elif kind is tuple:
            self._visit_all("(", value)
        elif id(value) in self._seen:
            self.tokens.append(f"@{self._seen[id(value)]}")
        else:
            self._seen[id(value)] = len(self._seen)
            if kind is dict:
                self._visit_items("{", value.items())
            elif kind is list:
                self._visit_all("[", value)
            else:
                self._look_into(value, kind)

    def _look_into(self, value: Any, kind: type) -> None:
        match value:
            case list() | deque():
                self._visit_all("[", value)
            case dict():
                self._visit_items("{", value.items())
            case set() | frozenset():
                self._visit_items("{", ((one, None) for one in value))
            case types.FunctionType():
                cells = [cell.cell_contents for cell in value.__closure__ or ()]
                self._visit_all(value.__qualname__, (*cells, value.__defaults__))
            case types.MethodType():
                self._visit_all(value.__name__, (value.__self__,))
            case types.GeneratorType():
                self._visit_generator(value)
            case partial():
                self._visit_all("partial", (value.func, value.args, value.keywords))
            case _ if isinstance(value, FIXED):
                self.tokens.append(kind.__name__)
            case _ if isinstance(value, _NAMED):
                self.tokens.append(str(value))
            case _:
                self._visit_fields(kind.__qualname__, value)

    def _visit_all(self, what: str, values: Iterable[Any]) -> None:
        self.tokens.append(what)
        for value in values:
            self.visit(value)
        self.tokens.append(")")

    def _visit_items(self, what: str, items: Iterable[tuple[Any, Any]]) -> None:
        self.tokens.append(what)
        named = sorted(((repr(key), value) for key, value in items), key=lambda item: item[0])
        for key, value in named:
            assert " at 0x" not in key, f"{key} has no name of its own"
            self.tokens.append(key)
            self.visit(value)
        self.tokens.append("}")

    def _visit_fields(self, what: str, value: Any) -> None:
        kind: type = type(value)
        slots = _slots(kind)
        attributes = getattr(value, "__dict__", None)
        if not slots and attributes is None:
            raise TypeError(f"there is no looking into {value!r}")
        self.tokens.append(what)
        for name in slots:
            if hasattr(value, name):
                self.tokens.append(name)
                self.visit(getattr(value, name))
        for name in sorted(attributes or ()):
            if name not in COUNTERS:
                self.tokens.append(name)
                self.visit(getattr(value, name))
        self.tokens.append("}")

    def _visit_generator(self, generator: types.GeneratorType[Any, Any, Any]) -> None:
        frame = generator.gi_frame
        if frame is None:
            self.tokens.append("ended")
            return
        self.tokens.append(frame.f_lasti)
        self._visit_items(generator.__qualname__, frame.f_locals.items())
        self.visit(generator.gi_yieldfrom)


@cache
def _slots(kind: type) -> list[str]:
    names = [name for one in kind.__mro__ for name in one.__dict__.get("__slots__", ())]
    return sorted(name for name in names if name not in COUNTERS and name != "__weakref__")
