"""Where the keys of a stateful operator are: one rule for all of them.

With a `control` stream they are on bins that its commands move. Without one, an operator of a job listens to the
job's own control stream (`Flow.command`); outside of a job, each key stays on the worker that its hash names. How keys
get there is `routing.placement`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.dataflow.scope import Scope
from framework.errors import GraphError
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import ByHash, Key, OnBins, Placement, RowKey
from routing.state_operator import StateLogic

if TYPE_CHECKING:
    from operators.stream import Stream


@dataclass(frozen=True, slots=True)
class _Implied:
    scope: Scope
    commands: Callable[[], Stream[Control]]


_implied: ContextVar[_Implied | None] = ContextVar("implied control", default=None)


@contextmanager
def implied_control(scope: Scope, commands: Callable[[], Stream[Control]]) -> Iterator[None]:
    """Let operators that are built meanwhile, in `scope` or within it, listen to `commands()` unless told otherwise."""
    token = _implied.set(_Implied(scope, commands))
    try:
        yield
    finally:
        _implied.reset(token)


def place(
    streams: Sequence[tuple[Stream[Any], Key]],
    make: Callable[[], StateLogic],
    *,
    control: Stream[Control] | None,
    options: BinOptions,
    name: str,
) -> Stream[Any]:
    """Run what `make` makes on the records of `streams`, each with the function that gives a record's key."""
    first, _ = streams[0]
    placement = placement_in(first.scope, control=control, options=options, name=name)
    return type(first)(placement.place([(stream.outlet, RowKey(key)) for stream, key in streams], make(), name))


def placement_in(scope: Scope, *, control: Stream[Control] | None, options: BinOptions, name: str) -> Placement:
    """Where the keys of an operator in `scope` are."""
    if scope.domain.depth:
        raise GraphError(
            f"operator {name!r} keeps state by epochs and works in a dataflow's outermost scope, not in iterations; "
            f"use it around the loop, or `state_machine` within"
        )
    commands = _implied_in(scope) if control is None else control
    if commands is None:
        return ByHash(Bins(options.bins))
    return OnBins(commands.outlet, options, implied=control is None)


def _implied_in(scope: Scope) -> Stream[Control] | None:
    implied = _implied.get()
    if implied is None:
        return None
    if scope is implied.scope:
        return implied.commands()
    around = None if scope.parent is None else _implied_in(scope.parent)
    return None if around is None else around.enter(scope)
