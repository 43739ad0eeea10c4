"""Where the keys of a stateful operator are: one rule for all of them.

With a `control` stream they are on bins that its commands move. Without one, an operator of a job listens to the
job's own control stream (`Flow.command`); outside of a job, each key stays on the worker that its hash names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.dataflow.scope import Outlet, Scope
from framework.errors import GraphError
from routing.bins import Bins
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import ByHash, Keying, OnBins, Placement, RowKey
from routing.state_operator import StateLogic

if TYPE_CHECKING:
    from operators.stream import Stream

Key = Callable[[Any], Any]


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
    return type(streams[0][0])(
        place_keyed(
            [(stream.outlet, RowKey(key)) for stream, key in streams], make, control=control, options=options, name=name
        )
    )


def place_keyed(
    streams: Sequence[tuple[Outlet, Keying]],
    make: Callable[[], StateLogic],
    *,
    control: Stream[Control] | None,
    options: BinOptions,
    name: str,
) -> Outlet:
    """Run what `make` makes on the records of `streams`, whatever these carry."""
    scope = streams[0][0].scope
    if scope.domain.depth:
        raise GraphError(
            f"operator {name!r} keeps state by epochs and works in a dataflow's outermost scope, not in iterations; "
            f"use it around the loop, or `state_machine` within"
        )
    commands = _implied_in(scope) if control is None else control
    placement: Placement = (
        ByHash(Bins(options.bins)) if commands is None else OnBins(commands.outlet, options, implied=control is None)
    )
    return placement.place(streams, make(), name)


def _implied_in(scope: Scope) -> Stream[Control] | None:
    implied = _implied.get()
    if implied is None:
        return None
    if scope is implied.scope:
        return implied.commands()
    around = None if scope.parent is None else _implied_in(scope.parent)
    return None if around is None else around.enter(scope)
