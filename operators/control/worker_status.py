"""What a worker says about itself when it is asked: how far it is, how fast, and what it holds.

Called in the worker's own thread, between its steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from framework.dataflow.holdings import heard_of, held_here
from framework.events import Event, OperatorScheduled
from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from framework.progress.explain import Blocker, Holding, Position, blockers
from framework.progress.location import Source, Target
from framework.progress.order import EPOCH_MAX
from framework.progress.subgraph import Child, Subgraph
from framework.suggest import hint
from framework.worker.worker import Worker
from operators.admin.errors import BadRequest
from operators.control.worker_messages import (
    BinTable,
    BlockerState,
    Frontier,
    LateRecords,
    MovableBins,
    MoveObstacles,
    OperatorActivity,
    WorkerExplanation,
    WorkerProgress,
    WorkerStatus,
)
from operators.stateful.windows.late_count import late_counts
from routing.bins import BinId
from routing.load import add_up
from routing.migration.goals import GoalState
from routing.registry import groups_on, operators_on

LISTEN_S = 10.0
"""How long a meter runs after somebody has last asked."""

PAUSE_S = 0.01
"""How long a worker looks for obstacles without doing anything else, unless one bin takes longer."""

BLOCKERS_MAX = 100
"""How many of a worker's holdings an explanation lists."""


def progress(worker: Worker, goal: GoalState | None) -> WorkerProgress:
    """How far a worker is: cheap enough to be asked all the time."""
    return WorkerProgress(_least(worker), goal)


def status(worker: Worker, meter: OperatorMeter, held: str | None = None) -> WorkerStatus:
    """All that `hailer status` shows of a worker."""
    return WorkerStatus(
        frontier=_least(worker),
        members=tuple(worker.members.workers),
        leaving=worker.asked_to_leave,
        congested=worker.congested(),
        metered_s=meter.metered_s,
        operators=tuple(
            OperatorActivity(
                path, child.operator.name, frontier_of(scope, child), meter.records[path], meter.busy_s[path]
            )
            for path, (scope, child) in _operators(worker).items()
        ),
        bins=tuple(
            BinTable(
                operator.path,
                operator.name,
                tuple(operator.table.owners),
                tuple(operator.table.pending),
                operator.keys_per_bin(),
            )
            for operator in operators_on(worker)
        ),
        late=_late(worker),
        held=held,
    )


def movable_bins(worker: Worker) -> tuple[MovableBins, ...]:
    """The bins that the job's commands move, by groups of operators, with what they weigh on this worker."""
    return tuple(
        MovableBins(
            name,
            tuple(operators[0].table.owners_at(EPOCH_MAX)) if operators[0].table.ready else (),
            tuple(sorted(operators[0].eligible())),
            add_up(operator.weigh() for operator in operators),
        )
        for name, operators in groups_on(worker).items()
    )


def obstacles(worker: Worker, bins: Sequence[BinId], group: str | None = None) -> MoveObstacles:
    """Why some of these bins could not leave this worker now. It begins with no further one after `PAUSE_S`."""
    groups = groups_on(worker)
    operators = [each for name in groups if group in (None, name) for each in groups[name]]
    clock = worker.events.clock
    deadline_s = clock() + PAUSE_S
    for index, bin_id in enumerate(bins):
        if index and clock() > deadline_s:
            return MoveObstacles((), tuple(bins[index:]))
        found = [obstacle for operator in operators for obstacle in operator.obstacles([bin_id])]
        if found:
            return MoveObstacles(tuple(found), ())
    return MoveObstacles((), ())


def explain(worker: Worker, asked: str | None) -> WorkerExplanation:
    """What this worker holds that holds back the frontier of an operator; of the last one, if none is named."""
    path, scope, child = _find(worker, asked)
    root = worker.dataflows()[int(path.partition(".")[0])]
    index = int(path.rpartition(".")[2])
    place = Position(scope.path, Target(index, 0) if child.targets else Source(index, 0))
    places = [Position(scope.path, Target(index, port)) for port in range(len(child.targets))] or [place]
    names = {path: child.operator.name for path, (_, child) in _operators(worker).items()}

    def blocking(holdings: Sequence[Holding]) -> tuple[BlockerState, ...]:
        found = [_blocker(one, names) for place in places for one in blockers(root, holdings, place)]
        return tuple(found[:BLOCKERS_MAX])

    return WorkerExplanation(
        path, child.operator.name, frontier_of(scope, child), blocking(held_here(root)), blocking(heard_of(root))
    )


def frontier_of(scope: Subgraph, child: Child) -> Frontier:
    """The least times that may still come to an operator, or from one without inputs, in this worker's view."""
    tracker = scope.ledger().tracker
    locations = child.targets or child.sources
    return tuple(Antichain(time for location in locations for time in tracker.frontier(location).frontier()))


@dataclass(slots=True)
class OperatorMeter:
    """Counts what operators do, while somebody asks."""

    records: Counter[str]
    """Records taken by each operator, by its path; sent, by those that take none."""
    busy_s: defaultdict[str, float]
    began_s: float
    asked_s: float
    clock: Callable[[], float]

    @property
    def metered_s(self) -> float:
        """How long it has been counting."""
        return self.clock() - self.began_s

    @staticmethod
    def start(worker: Worker, ended: Callable[[], None]) -> OperatorMeter:
        """Count from now on; `ended` is called when nobody has asked for a while."""
        clock = worker.events.clock
        meter = OperatorMeter(Counter(), defaultdict(float), clock(), clock(), clock)
        unsubscribe = worker.events.subscribe(meter.read)

        def check() -> None:
            if clock() - meter.asked_s < LISTEN_S:
                later.activate_after(LISTEN_S)
            else:
                unsubscribe()
                ended()

        later = worker.activator(check)
        later.activate_after(LISTEN_S)
        return meter

    def keep(self) -> OperatorMeter:
        """Keep counting: somebody asks."""
        self.asked_s = self.clock()
        return self

    def read(self, worker: WorkerId, at_s: float, event: Event) -> None:
        """Take an event."""
        if isinstance(event, OperatorScheduled):
            self.records[event.path] += event.consumed or event.produced
            self.busy_s[event.path] += event.duration_s


def _least(worker: Worker) -> Frontier:
    """The least epochs that may still come to any operator of any dataflow."""
    return tuple(
        Antichain(
            time
            for root in worker.dataflows().values()
            for child in root.children()
            for time in frontier_of(root, child)
        )
    )


def _late(worker: Worker) -> tuple[LateRecords, ...]:
    """The operators on windows, with what came too late for them on this worker."""
    counts = late_counts(worker)
    return tuple(
        LateRecords(path, child.operator.name, counts[path].late, counts[path].records)
        for path, (_, child) in _operators(worker).items()
        if path in counts
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


def _blocker(found: Blocker, names: dict[str, str]) -> BlockerState:
    place, time = found.holding.place, found.holding.time
    path = f"{place.scope}.{place.location.node}"
    return BlockerState(
        path=path,
        name=names.get(path, path),
        kind="capability" if isinstance(place.location, Source) else "records",
        port=place.location.port,
        time=time,
        count=found.holding.count,
        arrives=found.arrives,
        via=found.via,
    )
