"""A block of shared memory that a body is written to before it is sent.

Whether a body's pieces are where they belong is checked when it is sent, so nothing relies on how they were written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.wire.body import Body

if TYPE_CHECKING:
    from framework.net.shm.segment import OutboundSegment

BEFORE_BYTES, BEHIND_BYTES = 4096, 64
"""What a reserved block has before and behind its memory: for what a body has beside its large pieces."""


class ShmReservation:
    """A block of an outbound segment, for one body whose large pieces are written to `memory`."""

    __slots__ = ("_address", "_end", "memory", "segment", "start")

    def __init__(self, segment: OutboundSegment, start: int, block: memoryview, address: int) -> None:
        self.segment: OutboundSegment | None = segment
        """None once the block has been given to the other end."""
        self.start = start
        """Where the block is in the segment."""
        self.memory = block[BEFORE_BYTES:-BEHIND_BYTES]
        self._end = start + len(block)
        self._address = address
        """Where the segment is mapped."""

    def offsets(self, body: Body) -> list[int | None]:
        """For each piece of a body, where in the segment it is, if it is one of Arrow's buffers and in this block."""
        import pyarrow as pa

        return [
            offset
            if isinstance(piece, pa.Buffer) and self.start <= (offset := piece.address - self._address) < self._end
            else None
            for piece in body
        ]

    def start_of(self, body: Body, size: int, offsets: Sequence[int | None]) -> int | None:
        """Where a body starts in the segment whose pieces have these offsets, if they agree and it fits into the block:
        then its other pieces can be written between them."""
        starts, before = set[int](), 0
        for piece, offset in zip(body, offsets, strict=True):
            if offset is not None:
                starts.add(offset - before)
            before += len(piece)
        if len(starts) != 1:
            return None
        [start] = starts
        return start if self.start <= start and start + size <= self._end else None
