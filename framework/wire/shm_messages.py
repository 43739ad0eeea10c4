"""How one end of a link lends memory to the other: what is said about it, and which blocks of it are free.

Between processes of one machine a large body need not pass through a socket. The sender has memory that both can see;
it writes the body into a free block, and a frame in the body's place names the block. So frames keep their order, and
whatever there is no room for is sent as it is. The receiver reads the body where it lies, and returns the block when
nobody refers to it any more.

These messages are between the two ends of a link; no worker hears of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from framework.errors import ProtocolError
from framework.wire import checks
from framework.wire.codec import Buffer, decode_value, encode_fields

TOKEN_BYTES = 32
"""What the memory begins with, so that the other end knows that it has opened the right one."""

BLOCK_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """The sender has memory to lend: what this descriptor of this process of its machine is open for."""

    process: int
    descriptor: int
    size: int
    token: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the sender of this could open what it was offered."""

    accepted: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """In place of a body: it lies there."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Returned:
    """Who says this has read so many bytes of bodies that were placed, in all, and needs these blocks no more."""

    read_bytes: int
    starts: tuple[int, ...]


ShmMessage: TypeAlias = Offer | Answer | Placed | Returned


class _ShmKind:
    """The first byte of a body; those of `framework.wire.messages` are others."""

    OFFER = 6
    ANSWER = 7
    PLACED = 8
    RETURNED = 9


def encode(message: ShmMessage) -> bytes:
    """The body of one frame."""
    match message:
        case Offer(process, descriptor, size, token):
            return _compose(_ShmKind.OFFER, process, descriptor, size, token)
        case Answer(accepted):
            return _compose(_ShmKind.ANSWER, accepted)
        case Placed(start, size):
            return _compose(_ShmKind.PLACED, start, size)
        case Returned(read_bytes, starts):
            return _compose(_ShmKind.RETURNED, read_bytes, starts)


def decode(body: Buffer) -> ShmMessage | None:
    """The message in the body of a frame, None if it is none of these, or `ProtocolError`."""
    kind = body[0] if len(body) else 0
    if not _ShmKind.OFFER <= kind <= _ShmKind.RETURNED:
        return None
    match kind, decode_value(body[1:]):
        case _ShmKind.OFFER, [process, descriptor, size, bytes(token)]:
            return Offer(checks.natural(process), checks.natural(descriptor), checks.natural(size), token)
        case _ShmKind.ANSWER, [bool(accepted)]:
            return Answer(accepted)
        case _ShmKind.PLACED, [start, size]:
            return Placed(checks.natural(start), checks.natural(size))
        case _ShmKind.RETURNED, [read_bytes, list(starts)]:
            return Returned(checks.natural(read_bytes), tuple(map(checks.natural, starts)))
    raise ProtocolError(f"no message of kind {kind} has such fields")


class BlockAllocator:
    """Which parts of a piece of memory are in use. The first that is large enough is taken, so that what was returned
    last is mostly taken next, while the processor still has it near."""

    __slots__ = ("_free", "_used")

    def __init__(self, start: int, end: int) -> None:
        first = _aligned(start)
        self._free = [(first, end - first)]
        """Where they start, ascending, and their sizes. No two touch each other."""
        self._used: dict[int, int] = {}

    @property
    def used(self) -> int:
        """How many blocks are in use."""
        return len(self._used)

    def take(self, size: int) -> int | None:
        """Where a block of at least `size` bytes starts, or None if there is none."""
        size = _aligned(size)
        for index, (start, room) in enumerate(self._free):
            if room >= size:
                if room == size:
                    del self._free[index]
                else:
                    self._free[index] = start + size, room - size
                self._used[start] = size
                return start
        return None

    def give_back(self, start: int) -> None:
        """A block is free again. One that is not in use raises `ProtocolError`: it is the peer who names it."""
        size = self._used.pop(start, None)
        if size is None:
            raise ProtocolError(f"the block at {start} was returned, and is not in use")
        index = bisect_left(self._free, (start, 0))
        if index < len(self._free) and self._free[index][0] == start + size:
            size += self._free.pop(index)[1]
        if index and sum(self._free[index - 1]) == start:
            start, before = self._free.pop(index - 1)
            size += before
        insort(self._free, (start, size))

    def validate(self) -> None:
        """Check that free and used blocks cover everything once, and that free ones are joined."""
        pieces = sorted([(*piece, True) for piece in self._free] + [(*piece, False) for piece in self._used.items()])
        for (start, size, free), (following, _, free_too) in pairwise(pieces):
            assert start + size == following, (start, size, following)
            assert not (free and free_too), (start, following)


def _aligned(size: int) -> int:
    return -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


def _compose(kind: int, *fields: Any) -> bytes:
    return bytes((kind,)) + encode_fields(fields)
