"""Feed a stream from outside the dataflow, at several times by turns."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from framework.dataflow.capability import Capability
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.scope import Scope
from operators.input.input import Feed
from operators.stream import Stream

T = TypeVar("T")


class UnorderedInput(Generic[T]):
    """A handle to send records with, at the time of any capability that is held."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def send(self, capability: Capability, record: T) -> None:
        """Send one record at the time of `capability`."""
        self.send_batch(capability, [record])

    def send_batch(self, capability: Capability, rows: list[T]) -> None:
        """Send many records at the time of `capability`; the list must not be changed afterwards."""
        self._feed.push(capability, rows)


def unordered_input(
    scope: Scope, *, name: str = "unordered_input"
) -> tuple[UnorderedInput[Any], Capability, Stream[Any]]:
    """A handle, a capability for the least time to send with, and the stream of what is sent.

    >>> from framework.launch.execute import execute
    >>> def main(worker):
    ...     with worker.dataflow() as scope:
    ...         input, capability, stream = unordered_input(scope)
    ...         result = stream.extract()
    ...     with capability:
    ...         for day in 5, 3, 5:
    ...             with capability.delayed(day) as later:
    ...                 input.send(later, f"seen on day {day}")
    ...     return result
    >>> [result] = execute(main)
    >>> result.by_time()
    {3: ['seen on day 3'], 5: ['seen on day 5', 'seen on day 5']}

    The program decides with its capabilities how far the stream has come: `delayed` gives one more for a later time,
    `downgrade` gives up what is earlier, and `drop` all of it. Those still held when the program ends keep the
    dataflow from completing: drop them.
    """
    builder = scope.operator(name)
    output, outlet = builder.output()
    granted: list[Capability] = []

    def build(capabilities: list[Capability]) -> OperatorLogic:
        granted.extend(capabilities)
        return lambda: None

    builder.build(build, capabilities=True, notify=False)
    return UnorderedInput(Feed(scope, output, name)), granted.pop(), Stream(outlet)
