"""A link between two workers of one process: messages are handed over as they are, without encoding.

Each direction is a `Lane`: a queue with a single producer and a single consumer. Each of its two counters is written by
one side only, so that their difference needs no lock.
"""

from __future__ import annotations

from collections import deque

from framework.membership.members import WorkerId
from framework.net.waker import Waker
from framework.wire.container import weigh
from framework.wire.messages import Abort, Data, Goodbye, Lost, Message

LANE_RECORDS_MAX = 65_536
TAKE_RECORDS_MAX = 65_536
"""The most that one `receive` takes from a lane."""


class Lane:
    """Messages on their way from one thread to another."""

    __slots__ = ("_messages", "_reader", "_records_max", "_sent", "_taken", "_waiting", "_writer")

    def __init__(self, writer: Waker, reader: Waker, *, records_max: int = LANE_RECORDS_MAX) -> None:
        self._writer = writer
        self._reader = reader
        self._records_max = records_max
        self._messages: deque[tuple[int, Message]] = deque()
        self._sent = 0
        self._taken = 0
        self._waiting = False

    def put(self, messages: list[tuple[int, Message]]) -> None:
        """Called by the writer: hand over messages, each with its weight in rows."""
        self._sent += sum(weight for weight, _ in messages)
        self._messages.extend(messages)
        self._reader.wake()

    def take(self) -> list[Message]:
        """Called by the reader: a bounded amount of what has been handed over."""
        messages: list[Message] = []
        taken = 0
        while self._messages and taken < TAKE_RECORDS_MAX:
            weight, message = self._messages.popleft()
            taken += weight
            messages.append(message)
        self._taken += taken
        if self._waiting and self._sent - self._taken <= self._records_max // 2:
            self._waiting = False
            self._writer.wake()
        return messages

    def full(self) -> bool:
        """Called by the writer: whether the reader is behind. If so the writer is woken once it has caught up."""
        if self._sent - self._taken <= self._records_max:
            return False
        self._waiting = True
        return self._sent - self._taken > self._records_max

    def __len__(self) -> int:
        return len(self._messages)


class ThreadLink:
    """One worker's end of a link to another worker of its process."""

    __slots__ = ("_closed", "_finished", "_incoming", "_last_word", "_outgoing", "_queued", "_worker")

    def __init__(self, worker: WorkerId, outgoing: Lane, incoming: Lane) -> None:
        self._worker = worker
        self._outgoing = outgoing
        self._incoming = incoming
        self._queued: list[tuple[int, Message]] = []
        self._last_word = False
        self._finished = False
        self._closed = False

    def send(self, message: Message) -> None:
        """Queue a message for the next `flush`."""
        weight = weigh(message.container) if isinstance(message, Data) else 1
        self._queued.append((weight or 1, message))
        self._last_word = self._last_word or isinstance(message, Goodbye | Abort)

    def flush(self) -> None:
        """Hand over what is queued."""
        if self._queued and not self._closed:
            self._outgoing.put(self._queued)
            self._queued = []
            self._finished = self._last_word

    def receive(self) -> list[Message]:
        """Some of what the peer has handed over."""
        return self._incoming.take()

    def congested(self) -> bool:
        """Whether the peer is far behind."""
        return self._outgoing.full()

    @property
    def unread(self) -> bool:
        """Whether `receive` would return something."""
        return len(self._incoming) > 0

    @property
    def unsent(self) -> bool:
        """Whether something waits for `flush`."""
        return bool(self._queued)

    def close(self) -> None:
        """End the link. A peer that got neither a goodbye nor an abort is told that it lost us."""
        if not self._closed:
            self._closed = True
            self._queued = []
            if not self._finished:
                self._outgoing.put([(1, Lost(f"worker {self._worker} ended without a goodbye"))])
