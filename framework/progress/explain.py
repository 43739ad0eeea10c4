"""What holds a frontier back: which pointstamps could result in it, and through which operators.

Progress is an accumulation over all workers, so that who holds what is known only to each worker by itself. A worker
says what it holds (`framework.dataflow.holdings`), and this says how far from there times could come: forwards along
the edges, into nested scopes and out of them, keeping at each place the least times only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from framework.progress.antichain import Antichain
from framework.progress.location import Location, Source, Target
from framework.progress.order import Time
from framework.progress.subgraph import Subgraph
from framework.progress.summary import results_in


@dataclass(frozen=True, slots=True)
class Position:
    """A location of a scope, which is named by its path."""

    scope: str
    location: Location


@dataclass(frozen=True, slots=True)
class Holding:
    """Pointstamps: capabilities if they are at an output, records if they are at an input."""

    place: Position
    time: Time
    count: int


@dataclass(frozen=True, slots=True)
class Blocker:
    """A holding that could result in a time at the place asked about."""

    holding: Holding
    arrives: Time
    via: tuple[str, ...]
    """The operators on the way, from the one that holds to the one that waits."""


def scopes_of(root: Subgraph) -> dict[str, Subgraph]:
    """A dataflow's scopes by their paths, outer ones first."""
    found = {root.path: root}
    for child in root.children():
        if isinstance(child.operator, Subgraph):
            found |= scopes_of(child.operator)
    return found


def blockers(root: Subgraph, holdings: Iterable[Holding], place: Position) -> list[Blocker]:
    """Of these holdings, the ones with the least results at `place`: they, and no others, hold its frontier."""
    ways = _Ways(scopes_of(root))
    found = [Blocker(holding, time, via) for holding in holdings for time, via in ways.arrivals(holding, place).items()]
    least = set(Antichain(blocker.arrives for blocker in found))
    return [blocker for blocker in found if blocker.arrives in least]


class _Ways:
    """The ways through a dataflow."""

    def __init__(self, scopes: Mapping[str, Subgraph]) -> None:
        self._scopes = scopes
        self._names = {
            (path, int(child.path.rpartition(".")[2])): child.operator.name
            for path, scope in scopes.items()
            for child in scope.children()
        }

    def arrivals(self, holding: Holding, goal: Position) -> dict[Time, tuple[str, ...]]:
        """The least times that a holding could result in at `goal`, each with the operators on the way."""
        seen: dict[Position, Antichain[Time]] = {}
        arrived: dict[Time, tuple[str, ...]] = {}
        waiting = deque([(holding.place, holding.time, self._operators(holding.place))])
        while waiting:
            place, time, via = waiting.popleft()
            if not seen.setdefault(place, Antichain()).insert(time):
                continue
            if place == goal:
                arrived[time] = via
            for following, result in self._steps(place, time):
                named = self._operators(following) if isinstance(following.location, Target) else ()
                waiting.append((following, result, via + named if via[-1:] != named else via))
        least = set(seen.get(goal, ()))
        return {time: via for time, via in arrived.items() if time in least}

    def _steps(self, place: Position, time: Time) -> Iterator[tuple[Position, Time]]:
        scope, location = self._scopes[place.scope], place.location
        inner = f"{place.scope}.{location.node}"
        if isinstance(location, Target) and location.node == 0:
            around, _, index = place.scope.rpartition(".")
            yield Position(around, Source(int(index), location.port)), scope.nesting.leave(time)
        elif isinstance(location, Target) and inner in self._scopes:
            yield Position(inner, Source(0, location.port)), self._scopes[inner].nesting.enter(time)
        else:
            compiled = scope.compiled
            for follower, summary in compiled.successors[compiled.ids[location]]:
                result = results_in(summary, time)
                if result is not None:
                    yield Position(place.scope, compiled.locations[follower]), result

    def _operators(self, place: Position) -> tuple[str, ...]:
        name = self._names.get((place.scope, place.location.node))
        return () if name is None or f"{place.scope}.{place.location.node}" in self._scopes else (name,)
