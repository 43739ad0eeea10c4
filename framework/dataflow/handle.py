"""What an operator's logic holds: its inputs and its outputs.

An input hands out messages, each a container with a capability for its time, and counts the records taken. An output
takes records under a capability, buffers single ones into containers, counts them, and passes containers on to those
who listen. Both write into the operator's `SharedProgress`; the scope reads it after the activation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from framework.dataflow.capability import Capability, CapabilityHolder, InputCapability
from framework.errors import CapabilityInvalid, OperatorFailed
from framework.progress.antichain import Antichain, MutableAntichain
from framework.progress.change_batch import ChangeBatch
from framework.progress.order import Time
from framework.progress.summary import Summary, results_in
from framework.wire.container import Container, take_joined

if TYPE_CHECKING:
    from framework.dataflow.operator import BuiltOperator

ROWS_PER_CONTAINER = 4096
"""Single records are buffered into row containers of this size."""

Pusher = Callable[[Time, Container], None]


class InputHandle:
    """Iterate over it for messages: `for capability, container in input: …`."""

    def __init__(self, operator: BuiltOperator, port: int, frontier: MutableAntichain) -> None:
        self.frontier = frontier
        self._operator = operator
        self._port = port
        self._queue: deque[tuple[Time, Container]] = deque()
        self._consumed: ChangeBatch[Time] = operator.shared.consumed[port]
        self._given: list[InputCapability] = []

    def push(self, time: Time, container: Container) -> None:
        """Deliver a message; the operator runs at the next opportunity."""
        self._queue.append((time, container))
        self._operator.activate()

    def discard(self, time: Time, count: int) -> None:
        """Count records as taken that were on their way to this input on a worker that is gone."""
        self._consumed.update(time, count)
        self._operator.activate()

    def __iter__(self) -> Iterator[tuple[InputCapability, Any]]:
        queue, operator = self._queue, self._operator
        while queue:
            time, container = queue.popleft()
            if queue and type(container) is not list:
                container = take_joined(queue, time, container)
            operator.time = time
            self._consumed.update(time, len(container))
            capability = InputCapability(time, self)
            self._given.append(capability)
            yield capability, container
        operator.time = None

    @property
    def operator_name(self) -> str:
        """The name of the operator whose input it is."""
        return self._operator.name

    def at_hand(self, time: Time | None) -> None:
        """Say what the operator works at, for reports."""
        self._operator.time = time

    def failure(self, time: Time) -> OperatorFailed:
        """The error that says that the operator failed at `time`."""
        return self._operator.failure(time)

    @property
    def outputs(self) -> Sequence[OutputHandle]:
        """The outputs of the operator."""
        return self._operator.outputs

    def covers(self, time: Time, holder: CapabilityHolder, sent: Time) -> bool:
        """Whether a message at `time` may result in one at `sent` at an output of this operator."""
        for output, paths in zip(self._operator.outputs, self._operator.connection[self._port], strict=True):
            if output is holder:
                return _covered(paths, time, sent)
        return False

    def queued(self) -> Iterable[tuple[Time, Container]]:
        """The messages not yet taken."""
        return self._queue

    def end_activation(self) -> None:
        """What came with messages is void from here on."""
        for capability in self._given:
            capability.expire()
        self._given.clear()

    def shut_down(self) -> None:
        """Drop what is queued."""
        self._queue.clear()


class OutputHandle:
    """Send with `output.session(capability).give(record)`."""

    def __init__(self, operator: BuiltOperator, port: int) -> None:
        self.pushers: list[Pusher] = []
        self.held: dict[Time, int] = {}
        """How many capabilities there are on this worker, by time."""
        self._operator = operator
        self._port = port
        self._internal: ChangeBatch[Time] = operator.shared.internal[port]
        self._produced: ChangeBatch[Time] = operator.shared.produced[port]
        self._buffer: list[Any] = []
        self._buffer_time: Time = 0
        self._sessions: list[Session] = []

    @property
    def label(self) -> str:
        """Which output of which operator."""
        return f"output {self._port} of {self._operator.name!r}"

    @property
    def live(self) -> bool:
        """Whether the operator's dataflow runs."""
        return self._operator.live

    def check_time(self, time: Time) -> None:
        """Raise unless `time` is a time of the operator's scope."""
        self._operator.domain.check_time(time)

    def session(self, capability: Capability | InputCapability) -> Session:
        """Send at the time of `capability`, until the activation ends."""
        if not capability.valid_at(self):
            raise CapabilityInvalid(
                f"{capability!r} does not allow sending at {self.label}: it was dropped, belongs to another output, or "
                f"comes from an input with no path to it at that time"
            )
        session = Session(self, capability.time)
        self._sessions.append(session)
        return session

    def give(self, time: Time, record: object) -> None:
        """Buffer one record; hot path of operators that send record by record."""
        buffer = self._buffer
        if buffer and self._buffer_time != time:
            self.flush()
            buffer = self._buffer
        self._buffer_time = time
        buffer.append(record)
        if len(buffer) >= ROWS_PER_CONTAINER:
            self.flush()

    def give_container(self, time: Time, container: Container) -> None:
        """Pass on a whole container, which the caller must not change afterwards."""
        if self._buffer:
            self.flush()
        if len(container):
            self._push(time, container)

    def flush(self) -> None:
        """Flush the buffer."""
        if self._buffer:
            buffer, self._buffer = self._buffer, []
            self._push(self._buffer_time, buffer)

    def buffered(self) -> tuple[Time, int]:
        """The time and the number of records in the buffer."""
        return self._buffer_time, len(self._buffer)

    def _push(self, time: Time, container: Container) -> None:
        self._produced.update(time, len(container))
        for push in self.pushers:
            push(time, container)
        if not self._operator.running:
            self._operator.activate()

    def change_capability(self, time: Time, delta: int) -> None:
        """Account for a capability; the scope hears of it after the activation, or is asked to listen."""
        self._internal.update(time, delta)
        held = self.held.get(time, 0) + delta
        if held:
            self.held[time] = held
        else:
            del self.held[time]
        if not self._operator.running:
            self._operator.activate()

    def release_later(self, time: Time) -> None:
        """Account for a capability that the garbage collector found."""
        self._operator.release_later(self, time)

    def end_activation(self) -> None:
        """Sessions are void from here on: their capabilities may be gone."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()


class Session:
    """Sending at one time, within one activation."""

    __slots__ = ("_output", "time")

    def __init__(self, output: OutputHandle, time: Time) -> None:
        self._output: OutputHandle | _Closed = output
        self.time = time

    def give(self, record: object) -> None:
        """Send one record."""
        self._output.give(self.time, record)

    def give_container(self, container: Container) -> None:
        """Send a container as it is; it must not be changed afterwards."""
        self._output.give_container(self.time, container)

    def close(self) -> None:
        """Refuse what is given from here on."""
        self._output = _Closed()


class _Closed:
    """What a session that has ended gives to."""

    def give(self, time: Time, record: object) -> None:
        raise CapabilityInvalid(
            f"a session at {time!r} was used after the activation that opened it, when its capability may be gone; "
            f"keep the capability, and open a session when there is something to send"
        )

    give_container = give


def _covered(paths: Antichain[Summary], time: Time, sent: Time) -> bool:
    for summary in paths:
        result = results_in(summary, time)
        if result is not None and result <= sent:  # type: ignore[operator]
            return True
    return False
