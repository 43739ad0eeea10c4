"""Containers kept until their time is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle
from framework.progress.order import Time
from framework.progress.time_queue import TimeQueue

C = TypeVar("C")


class Stash(Generic[C]):
    """Keeps containers by their times, each time with one capability."""

    def __init__(self) -> None:
        self._kept: dict[Time, tuple[Capability, list[C]]] = {}
        self._times = TimeQueue()

    def add(self, capability: InputCapability | Capability, container: C) -> None:
        """Keep a container at the time of `capability`: of its message, or one that the stash owns from here on."""
        time = capability.time
        if time not in self._kept:
            held = capability if isinstance(capability, Capability) else capability.retain()
            self._kept[time] = held, []
            self._times.add(time)
        elif isinstance(capability, Capability):
            capability.drop()
        self._kept[time][1].append(container)

    def complete(self, *inputs: InputHandle) -> Iterator[tuple[Capability, list[C]]]:
        """Take out what nothing at or before its time can join any more at `inputs`, earliest first.

        A capability is dropped after its turn.
        """
        for capability, containers in self.take(
            lambda time: not any(input.frontier.less_equal(time) for input in inputs)
        ):
            inputs[0].at_hand(capability.time)
            yield capability, containers
            inputs[0].at_hand(None)

    def take(self, ready: Callable[[Time], bool]) -> Iterator[tuple[Capability, list[C]]]:
        """The same for times that are `ready`."""
        for time in self._times.take(ready):
            capability, containers = self._kept.pop(time)
            with capability:
                yield capability, containers

    def clear(self) -> None:
        """Drop everything."""
        for capability, _ in self._kept.values():
            capability.drop()
        self._kept.clear()
        self._times.clear()
