"""How the state of a bin travels: prepare, chunks of bounded size, then its timers.

A chunk that holds one large entry is cut: a message stays far below the limit of a frame, whatever the size of a state.

`Shipper` decides what goes out next and keeps the bytes in flight below a limit; the receiver acknowledges messages by
their sizes. Neither touches a link: F and S send what these return.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from framework.membership.members import WorkerId
from framework.wire import codec
from routing.bins import BinId
from routing.load import LoadMeter
from routing.state.backend import BinState
from routing.state.errors import UnencodableState
from routing.state.store import PUT_OFF, encode_chunks

CHUNK_BYTES_MAX = 256 * 1024
"""The size of a chunk, unless one entry alone exceeds it."""

PIECE_BYTES_MAX = 1024 * 1024
"""The size of a message's payload: a chunk of one large entry is cut."""

IN_FLIGHT_BYTES_MAX = 4 * 1024 * 1024
"""The state that a worker may have in flight to others, unless one message alone exceeds it."""

MESSAGE_OVERHEAD_BYTES = 64
"""The size that a message without a payload counts as."""

NOTHING = codec.encode_rows([])


@dataclass(frozen=True, slots=True)
class Prepare:
    """The state of a bin is about to come."""

    target: WorkerId
    sender: WorkerId
    bin_id: BinId
    records_per_s: float = 0.0
    """How many records came to it, about."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some of a bin's state, as its store encoded it."""

    target: WorkerId
    sender: WorkerId
    bin_id: BinId
    payload: bytes
    more: bool = False
    """Whether the payload goes on in the next message."""


@dataclass(frozen=True, slots=True)
class ShippedTimers:
    """Some of a bin's timers, items with their times, as encoded rows. Its state came before; more timers may come."""

    target: WorkerId
    sender: WorkerId
    bin_id: BinId
    payload: bytes
    more: bool = False
    """Whether the payload goes on in the next message."""


@dataclass(frozen=True, slots=True)
class Ack:
    """`size` bytes of state have arrived at a receiver."""

    target: WorkerId
    size: int


StateMessage = Prepare | Chunk | ShippedTimers

for _kind in (Prepare, Chunk, ShippedTimers, Ack):
    codec.register(_kind, f"routing.{_kind.__name__}")


def size_of(message: StateMessage) -> int:
    """The size that a message counts as in flight."""
    return MESSAGE_OVERHEAD_BYTES + (0 if isinstance(message, Prepare) else len(message.payload))


def acknowledge(messages: Iterable[StateMessage]) -> list[Ack]:
    """Acknowledge messages that have arrived: one `Ack` per sender, for all of its bytes."""
    sizes: dict[WorkerId, int] = {}
    for message in messages:
        sizes[message.sender] = sizes.get(message.sender, 0) + size_of(message)
    return [Ack(sender, size) for sender, size in sizes.items()]


class Reassembly:
    """Puts payloads together that were cut. The messages of a bin come from one worker, in order."""

    def __init__(self) -> None:
        self._pieces: dict[BinId, list[bytes]] = {}

    def add(self, message: Chunk | ShippedTimers) -> bytes | None:
        """The payload that a message completes, if it does."""
        if message.more:
            self._pieces.setdefault(message.bin_id, []).append(message.payload)
            return None
        pieces = self._pieces.pop(message.bin_id, None)
        return message.payload if pieces is None else b"".join([*pieces, message.payload])


class Shipper:
    """The bins that leave one worker, and how many bytes of them are in flight."""

    def __init__(
        self,
        worker: WorkerId,
        bin_state: BinState,
        *,
        name: str,
        load: LoadMeter | None = None,
        chunk_bytes_max: int = CHUNK_BYTES_MAX,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
        piece_bytes_max: int = PIECE_BYTES_MAX,
    ) -> None:
        self.in_flight_bytes = 0
        self.shipped_bytes = 0
        """All state that has left so far."""
        self._name = name
        self._worker = worker
        self._bin_state = bin_state
        self._load = load
        self._chunk_bytes_max = chunk_bytes_max
        self._in_flight_bytes_max = in_flight_bytes_max
        self._piece_bytes_max = piece_bytes_max
        self._leaving: deque[tuple[int, Iterator[StateMessage]]] = deque()
        self._next: StateMessage | None = None

    def ship(self, time: int, bin_id: BinId, target: WorkerId) -> None:
        """Queue a bin to leave for `target` at `time`."""
        self._leaving.append((time, self._pack(bin_id, target)))

    def acknowledged(self, size: int) -> None:
        """`size` bytes have arrived."""
        self.in_flight_bytes -= size
        assert self.in_flight_bytes >= 0, self.in_flight_bytes

    def due(self) -> Iterator[tuple[int, StateMessage]]:
        """The messages that may leave now, each with its time. What is taken counts as in flight."""
        while self._leaving:
            time, messages = self._leaving[0]
            if self._next is None:
                self._next = next(messages, None)
            if self._next is None:
                self._leaving.popleft()
                continue
            size = size_of(self._next)
            if self.in_flight_bytes and self.in_flight_bytes + size > self._in_flight_bytes_max:
                return
            self.in_flight_bytes += size
            self.shipped_bytes += size
            message, self._next = self._next, None
            yield time, message

    def shipping_at(self) -> int | None:
        """The time of the bins that are leaving."""
        return self._leaving[0][0] if self._leaving else None

    def _pack(self, bin_id: BinId, target: WorkerId) -> Iterator[StateMessage]:
        records_per_s = self._load.take(bin_id) if self._load is not None else 0.0
        yield Prepare(target, self._worker, bin_id, records_per_s)
        try:
            for payload in self._bin_state.extract(bin_id, self._chunk_bytes_max):
                for piece, more in self._cut(payload):
                    yield Chunk(target, self._worker, bin_id, piece, more)
            timers = self._bin_state.extract_timers(bin_id)
            if not timers:
                yield ShippedTimers(target, self._worker, bin_id, NOTHING)
            for payload in encode_chunks(timers, self._chunk_bytes_max, what=PUT_OFF):
                for piece, more in self._cut(payload):
                    yield ShippedTimers(target, self._worker, bin_id, piece, more)
        except UnencodableState as error:
            raise UnencodableState(
                f"operator {self._name!r} cannot ship bin {bin_id} to worker {target}: {error}"
            ) from error

    def _cut(self, payload: bytes) -> Iterator[tuple[bytes, bool]]:
        """A payload in pieces, each with whether more of them follow."""
        size = self._piece_bytes_max
        last = max(0, len(payload) - 1) // size * size
        for start in range(0, last + 1, size):
            yield payload[start : start + size], start < last
