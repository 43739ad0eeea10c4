"""What a worker says about itself when it is asked: how far it is, how fast, and what it holds.

Called in the worker's own thread, between its steps. Everything here becomes JSON.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from framework.dataflow.holdings import heard_of, held_here
from framework.events import Event, OperatorScheduled
from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from framework.progress.explain import Blocker, Position, blockers
from framework.progress.location import Source, Target
from framework.progress.order import Time
from framework.progress.subgraph import Child, Subgraph
from framework.suggest import hint
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.times import to_json
from routing.registry import operators_on

LISTEN_S = 10.0
"""How long a meter runs after somebody has last looked at it."""

BLOCKERS_MAX = 100
"""How many of a worker's holdings an explanation lists."""


def pulse(worker: Worker) -> dict[str, Any]:
    """How far a worker is: cheap enough to be asked all the time."""
    return {"frontier": [to_json(time) for time in _least(worker)], "dataflows": len(worker.installed_dataflows())}


def status(worker: Worker, meter: Meter) -> dict[str, Any]:
    """All that `hailer status` shows of a worker."""
    return {
        **pulse(worker),
        "members": list(worker.members.workers),
        "leaving": worker.asked_to_leave,
        "congested": worker.congested(),
        "metered_s": meter.metered_s,
        "operators": [
            {
                "path": path,
                "name": child.operator.name,
                "frontier": [to_json(time) for time in frontier_of(scope, child)],
                "records": meter.records[path],
                "busy_s": meter.busy_s[path],
            }
            for path, (scope, child) in _operators(worker).items()
        ],
        "bins": [
            {
                "path": operator.path,
                "name": operator.name,
                "owners": list(operator.table.owners),
                "pending": operator.table.pending,
                "keys": {str(bin_id): keys for bin_id, keys in operator.keys_per_bin().items()},
            }
            for operator in operators_on(worker)
        ],
    }


def explain(worker: Worker, asked: str | None) -> dict[str, Any]:
    """What this worker holds that holds back the frontier of an operator; of the last one, if none is named."""
    path, scope, child = _find(worker, asked)
    root = worker.dataflows()[int(path.partition(".")[0])]
    index = int(path.rpartition(".")[2])
    place = Position(scope.path, Target(index, 0) if child.targets else Source(index, 0))
    places = [Position(scope.path, Target(index, port)) for port in range(len(child.targets))] or [place]
    names = {path: child.operator.name for path, (_, child) in _operators(worker).items()}
    held, heard = held_here(root), heard_of(root)
    return {
        "path": path,
        "name": child.operator.name,
        "frontier": [to_json(time) for time in frontier_of(scope, child)],
        "held": [_blocker(found, names) for place in places for found in blockers(root, held, place)][:BLOCKERS_MAX],
        "heard": [_blocker(found, names) for place in places for found in blockers(root, heard, place)][:BLOCKERS_MAX],
    }


def frontier_of(scope: Subgraph, child: Child) -> list[Time]:
    """The least times that may still come to an operator, or from one without inputs, in this worker's view."""
    tracker = scope.ledger().tracker
    locations = child.targets or child.sources
    return list(Antichain(time for location in locations for time in tracker.frontier(location).frontier()))


@dataclass(slots=True)
class Meter:
    """Counts what operators do, while somebody looks."""

    records: Counter[str]
    """Records taken by each operator, by its path; sent, by those that take none."""
    busy_s: defaultdict[str, float]
    began_s: float
    looked_s: float
    clock: Callable[[], float]

    @property
    def metered_s(self) -> float:
        """How long it has been counting."""
        return self.clock() - self.began_s

    @staticmethod
    def start(worker: Worker, ended: Callable[[], None]) -> Meter:
        """Count from now on; `ended` is called when nobody has looked for a while."""
        clock = worker.events.clock
        meter = Meter(Counter(), defaultdict(float), clock(), clock(), clock)
        unsubscribe = worker.events.subscribe(meter.read)

        def check() -> None:
            if clock() - meter.looked_s < LISTEN_S:
                later.activate_after(LISTEN_S)
            else:
                unsubscribe()
                ended()

        later = worker.activator(check)
        later.activate_after(LISTEN_S)
        return meter

    def look(self) -> Meter:
        """Keep counting: somebody looks."""
        self.looked_s = self.clock()
        return self

    def read(self, worker: WorkerId, at_s: float, event: Event) -> None:
        """Take an event."""
        if isinstance(event, OperatorScheduled):
            self.records[event.path] += event.consumed or event.produced
            self.busy_s[event.path] += event.duration_s


def _least(worker: Worker) -> list[Time]:
    """The least epochs that may still come to any operator of any dataflow."""
    return list(
        Antichain(
            time
            for root in worker.dataflows().values()
            for child in root.children()
            for time in frontier_of(root, child)
        )
    )


def _operators(worker: Worker) -> dict[str, tuple[Subgraph, Child]]:
    """Every operator by its path, with the scope that it is in; those of nested scopes follow the scope's name."""
    return {path: found for root in worker.dataflows().values() for path, found in _within(root)}


def _within(scope: Subgraph) -> Iterator[tuple[str, tuple[Subgraph, Child]]]:
    for child in scope.children():
        yield child.path, (scope, child)
        if isinstance(child.operator, Subgraph):
            yield from _within(child.operator)


def _find(worker: Worker, asked: str | None) -> tuple[str, Subgraph, Child]:
    operators = _operators(worker)
    if not operators:
        raise BadRequest("no dataflow runs on this job's workers now: it has not begun, or it is complete")
    if asked is None:
        asked = next(reversed(worker.dataflows()[max(worker.installed_dataflows())].children())).path
    found = [path for path, (_, child) in operators.items() if asked in (path, child.operator.name)]
    if not found:
        names = sorted({child.operator.name for _, child in operators.values()})
        listed, closest = ", ".join(map(repr, names)), hint(asked, [*names, *operators])
        raise BadRequest(f"there is no operator {asked!r}; there are {listed}{closest}")
    if len(found) > 1:
        raise BadRequest(f"{len(found)} operators are called {asked!r}; say which one by its path: {', '.join(found)}")
    scope, child = operators[found[0]]
    return found[0], scope, child


def _blocker(found: Blocker, names: dict[str, str]) -> dict[str, Any]:
    place, time = found.holding.place, found.holding.time
    path = f"{place.scope}.{place.location.node}"
    return {
        "path": path,
        "name": names.get(path, path),
        "kind": "capability" if isinstance(place.location, Source) else "records",
        "port": place.location.port,
        "time": to_json(time),
        "count": found.holding.count,
        "arrives": to_json(found.arrives),
        "via": list(found.via),
    }
