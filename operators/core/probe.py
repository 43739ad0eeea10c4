"""Look at a frontier from outside the dataflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Pipeline
from framework.errors import GraphError
from framework.progress.antichain import Antichain, MutableAntichain
from framework.progress.order import Time

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


class Probe:
    """Tells how far a stream has come: which times may still turn up on it, on any worker.

    One probe may watch several streams; it is then as far as the slowest of them.
    """

    def __init__(self) -> None:
        self._frontiers: list[MutableAntichain] = []
        self._waiting: list[Callable[[], None]] = []

    def watch(self, frontier: MutableAntichain) -> None:
        """Watch one more stream."""
        self._frontiers.append(frontier)

    def less_than(self, time: Time) -> bool:
        """Whether a record before `time` may still come."""
        return any(frontier.less_than(time) for frontier in self._watched())

    def less_equal(self, time: Time) -> bool:
        """Whether a record at or before `time` may still come."""
        return any(frontier.less_equal(time) for frontier in self._watched())

    def done(self) -> bool:
        """Whether nothing more can come."""
        return not any(frontier.frontier() for frontier in self._watched())

    def frontier(self) -> tuple[Time, ...]:
        """The least times that may still come."""
        return tuple(Antichain(time for frontier in self._watched() for time in frontier.frontier()))

    def when_moved(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, in the worker's thread, when a frontier may have moved."""
        self._waiting.append(callback)

    def moved(self) -> None:
        """Call those who wait for a move."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                callback()

    def _watched(self) -> list[MutableAntichain]:
        if not self._frontiers:
            raise GraphError("this probe watches no stream yet; pass it to .probe(...) of one in the dataflow first")
        return self._frontiers


def probe(stream: Stream[T], probe: Probe) -> Stream[T]:
    """Let `probe` watch this stream, which passes on unchanged.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> watcher = Probe()
    >>> _ = example(lambda scope: to_stream(scope, [1]).probe(watcher).extract())
    >>> watcher.done()
    True
    """
    builder = stream.scope.operator("probe")
    input = builder.input(stream.outlet, Pipeline())
    output, outlet = builder.output()
    probe.watch(input.frontier)

    def logic() -> None:
        for capability, container in input:
            output.session(capability).give_container(container)
        probe.moved()

    builder.build(lambda _: logic)
    return type(stream)(outlet)
