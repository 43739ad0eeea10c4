"""A stream from an iterator that says at which times its records are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from framework.dataflow.capability import Capability
from framework.dataflow.handle import OutputHandle
from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from framework.errors import GraphError, TimeWentBackwards
from framework.progress.order import Time
from operators.core.probe import Probe
from operators.core.source import SourceLogic, source
from operators.errors import RecordNotPair
from operators.stream import Stream

T = TypeVar("T")


def iterator_source(
    scope: Scope,
    batches: Iterable[tuple[Time, Iterable[T]]],
    *,
    probe: Probe | None = None,
    epochs_ahead_max: int = 1,
    name: str = "iterator_source",
) -> Stream[T]:
    """Send the records of each `(time, records)`, at times that only move forward.

    >>> from framework.launch.execute import example
    >>> batches = ((day, [f"news of day {day}"]) for day in range(2))
    >>> example(lambda scope: iterator_source(scope, batches).extract()).by_time()
    {0: ['news of day 0'], 1: ['news of day 1']}

    One pair is taken per activation, so the rest of the dataflow gets its turn in between; none is sent while a peer is
    behind. Each worker sends what its own iterator gives.

    With a `probe` further down the stream, the source also waits for the dataflow itself: it sends at epoch `e` when
    all epochs before `e - epochs_ahead_max` are complete there.
    """
    if probe is not None and scope.domain.depth:
        raise GraphError(f"operator {name!r} can wait for a probe in a dataflow's outermost scope only")
    remaining = iter(batches)
    worker = scope.worker

    def may_send_at(time: Time, activator: Activator) -> bool:
        """Whether this is the moment; if not, ask to be activated when it may be."""
        if worker.congested():
            activator.activate_when_clear()
            return False
        if probe is not None and isinstance(time, int) and probe.less_than(time - epochs_ahead_max):
            probe.when_moved(activator.activate)
            return False
        return True

    def constructor(capability: Capability, activator: Activator) -> SourceLogic:
        taken: list[tuple[Time, Any]] = []

        def logic(output: OutputHandle) -> None:
            if not capability.held:
                return
            if not taken:
                batch = _take(remaining, capability, scope, name)
                if batch is None:
                    capability.drop()
                    return
                taken.append(batch)
            time, rows = taken[0]
            # The probe cannot come closer than the capability: move first, then wait.
            capability.downgrade(time)
            if may_send_at(time, activator):
                output.session(capability).give_container(rows)
                taken.clear()
                activator.activate()

        return logic

    return source(scope, constructor, name=name)


def _take(remaining: Iterator[Any], capability: Capability, scope: Scope, name: str) -> tuple[Time, Any] | None:
    """The next time and container, or None at the end."""
    batch = next(remaining, None)
    if batch is None:
        return None
    try:
        time, rows = batch
    except (TypeError, ValueError) as error:
        raise RecordNotPair(
            f"operator {name!r} expects pairs (time, records), and its iterator gave {batch!r}"
        ) from error
    scope.domain.check_time(time)
    if not capability.time <= time:
        raise TimeWentBackwards(
            f"operator {name!r} is at time {capability.time!r}, and its iterator went back to {time!r}; "
            f"sort what it gives by time"
        )
    return time, list(rows)
