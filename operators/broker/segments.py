"""Where byte strings lie in an append-only log: how it is cut into segments, and which of them are needed.

A segment is appended to until it is full, and nothing in it is ever changed. It is freed once all that it holds has
been dropped; the space of one byte string alone is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a byte string lies in its log."""

    segment: int
    offset: int
    size: int


@dataclass(slots=True)
class _Segment:
    written: int = 0
    held: int = 0
    """How many extents it holds that were not dropped."""


@dataclass(slots=True)
class Segments:
    """The segments of one log that are not freed."""

    segment_bytes: int
    """From this size on, a segment is full."""
    occupied: int = 0
    """How many bytes have been written to segments that are not freed."""
    _kept: dict[int, _Segment] = field(default_factory=dict)
    _last: int = -1

    def append(self, size: int) -> Extent:
        """The place of a further byte string."""
        last = self._kept.get(self._last)
        if last is None or last.written >= self.segment_bytes:
            self._last += 1
            last = self._kept[self._last] = _Segment()
        extent = Extent(self._last, last.written, size)
        last.written += size
        last.held += 1
        self.occupied += size
        return extent

    def take_back(self, extent: Extent) -> bool:
        """A byte string was not written after all: its place goes to the next, if none has come behind it."""
        segment = self._kept[extent.segment]
        if extent.offset + extent.size == segment.written:
            segment.written -= extent.size
            self.occupied -= extent.size
        return self.drop(extent)

    def drop(self, extent: Extent) -> bool:
        """Free a byte string; whether its segment is free with it."""
        segment = self._kept[extent.segment]
        segment.held -= 1
        if segment.held:
            return False
        self.occupied -= segment.written
        del self._kept[extent.segment]
        return True
