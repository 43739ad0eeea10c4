"""Notifications: tell me when nothing can arrive any more at or before a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.dataflow.capability import Capability
from framework.dataflow.operator import BuiltOperator
from framework.progress.antichain import MutableAntichain
from framework.progress.order import Time, linear_key
from framework.progress.time_queue import TimeQueue


class Notificator:
    """Capabilities waiting for their time to be complete at all watched inputs.

    Iterate over it for those that are, earliest first; each is yielded once per time and dropped after its turn.
    """

    def __init__(self, operator: BuiltOperator, frontiers: Sequence[MutableAntichain]) -> None:
        self._operator = operator
        self._frontiers = frontiers
        self._waiting: dict[Time, Capability] = {}
        self._order = TimeQueue()
        operator.on_shut_down.append(self.clear)

    def notify_at(self, capability: Capability) -> None:
        """Deliver `capability` once its time is complete. The notificator owns it from here on."""
        time = capability.time
        if time in self._waiting:
            capability.drop()
        else:
            self._waiting[time] = capability
            self._order.add(time)

    def complete(self, time: Time) -> bool:
        """Whether nothing at or before `time` can arrive at the watched inputs."""
        return not any(frontier.less_equal(time) for frontier in self._frontiers)

    def __iter__(self) -> Iterator[Capability]:
        for time in self._order.take(self.complete):
            self._operator.time = time
            with self._waiting.pop(time) as capability:
                yield capability
            self._operator.time = None

    def pending(self) -> list[Time]:
        """The times that are waited for."""
        return sorted(self._waiting, key=linear_key)

    def clear(self) -> None:
        """Drop all that wait."""
        for capability in self._waiting.values():
            capability.drop()
        self._waiting.clear()
        self._order.clear()
