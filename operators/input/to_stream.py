"""A stream from something to iterate over."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from framework.dataflow.capability import Capability
from framework.dataflow.handle import ROWS_PER_CONTAINER, OutputHandle
from framework.dataflow.operator import Activator
from framework.dataflow.scope import Scope
from operators.core.source import SourceLogic, source
from operators.stream import Stream

T = TypeVar("T")


def to_stream(scope: Scope, records: Iterable[T], *, name: str = "to_stream") -> Stream[T]:
    """Send all `records` at the least time, and be done.

    >>> from framework.launch.execute import example
    >>> example(lambda scope: to_stream(scope, ["a", "b"]).extract()).by_time()
    {0: ['a', 'b']}

    Each worker sends the records that it was given: with two workers that are given the same, each record comes twice.
    A container's worth is sent per activation, and none while a peer is behind, so `records` may be long.
    """
    remaining = iter(records)
    worker = scope.worker

    def constructor(capability: Capability, activator: Activator) -> SourceLogic:
        def logic(output: OutputHandle) -> None:
            if not capability.held:
                return
            if worker.congested():
                activator.activate_when_clear()
                return
            rows = list(islice(remaining, ROWS_PER_CONTAINER))
            if rows:
                output.session(capability).give_container(rows)
                activator.activate()
            else:
                capability.drop()

        return logic

    return source(scope, constructor, name=name)
