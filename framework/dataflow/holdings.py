"""What one worker holds of a dataflow: its capabilities, and the records that wait at its operators' inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from framework.dataflow.operator import BuiltOperator
from framework.progress.explain import Holding, Position, scopes_of
from framework.progress.location import Source, Target
from framework.progress.order import Time
from framework.progress.subgraph import Subgraph


def held_here(root: Subgraph) -> list[Holding]:
    """What this worker itself holds. Records on their way to it, or from it, are not among this."""
    return [holding for path, scope in scopes_of(root).items() for holding in _held_in(path, scope)]


def heard_of(root: Subgraph) -> list[Holding]:
    """What is held anywhere, and on its way, by all that this worker has heard: right, but perhaps late."""
    found = []
    for path, scope in scopes_of(root).items():
        nested = {int(child.path.rpartition(".")[2]) for child in scope.children() if _is_scope(child.operator)}
        for (number, time), count in scope.progress_state().pointstamps.items():
            location = scope.compiled.locations[number]
            # What enters a scope or may leave a nested one is a reflection of what is held on the other side.
            reflected = isinstance(location, Source) and (location.node == 0 or location.node in nested)
            if count > 0 and not reflected:
                found.append(Holding(Position(path, location), time, count))
    return found


def _is_scope(operator: object) -> bool:
    return isinstance(operator, Subgraph)


def _held_in(path: str, scope: Subgraph) -> Iterator[Holding]:
    for child in scope.children():
        operator, index = child.operator, int(child.path.rpartition(".")[2])
        if not isinstance(operator, BuiltOperator):
            continue
        for port, output in enumerate(operator.outputs):
            for time, count in output.held.items():
                yield Holding(Position(path, Source(index, port)), time, count)
        for port, handle in enumerate(operator.inputs):
            waiting: Counter[Time] = Counter()
            for time, container in handle.queued():
                waiting[time] += len(container)
            for time, count in waiting.items():
                yield Holding(Position(path, Target(index, port)), time, count)
