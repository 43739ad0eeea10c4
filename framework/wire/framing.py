"""Where one message ends and the next begins: four bytes of length, big-endian, and then the body.

A length above the limit is refused as soon as it is read, before anything of its body is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.errors import ProtocolError
from framework.wire.codec import Buffer

FRAME_BYTES_MAX = 16 * 1024 * 1024
PREFIX_BYTES = 4
LONG_BYTES = 64 * 1024
"""Frames from this length on are read into memory of their own."""


def allocate_plainly(size: int) -> memoryview:
    """Memory for a long frame."""
    return memoryview(bytearray(size))


def prefix(body_bytes: int, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """What goes before a body of this length."""
    assert body_bytes <= frame_bytes_max, body_bytes
    return body_bytes.to_bytes(PREFIX_BYTES, "big")


def frame(body: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """A body with its prefix."""
    return prefix(len(body), frame_bytes_max=frame_bytes_max) + body


class FrameReader:
    """Bytes in as they come, bodies out as they are complete.

    Whole frames are slices of what was fed, without a copy. A frame that is not complete yet is buffered; a long one in
    memory of its own, whose rest, `room`, is to be read into directly.
    """

    __slots__ = ("_allocate", "_frame_bytes_max", "_long", "_missing", "_partial")

    def __init__(
        self, *, frame_bytes_max: int = FRAME_BYTES_MAX, allocate: Callable[[int], memoryview] = allocate_plainly
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._allocate = allocate
        self._partial = bytearray()
        self._long = memoryview(b"")
        """The body of a long frame, of which `_missing` bytes are still to come."""
        self._missing = 0

    @property
    def pending_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._long) - self._missing if self._missing else len(self._partial)

    @property
    def room(self) -> memoryview:
        """Where the next bytes of a long frame go. Empty if there is none: hand them to `feed`."""
        return self._long[-self._missing :] if self._missing else self._long[:0]

    def wrote(self, count: int) -> list[Buffer]:
        """`count` bytes were written to `room`; the bodies that this completes."""
        self._missing -= count
        if self._missing:
            return []
        body, self._long = self._long, memoryview(b"")
        return [body]

    def feed(self, data: bytes) -> list[Buffer]:
        """The bodies that `data` completes, in order. They stay valid: they are views of memory nobody else writes."""
        view = memoryview(data)
        bodies: list[Buffer] = []
        start = 0
        if self._missing:
            start = self._fill(view, bodies)
        elif self._partial:
            start = self._complete(view, bodies)
        end = len(view)
        while end - start >= PREFIX_BYTES:
            body = start + PREFIX_BYTES
            length = self._length(view[start:body])
            if body + length > end:
                if length >= LONG_BYTES:
                    self._begin_long(length)
                    start = body + self._fill(view[body:], bodies)
                break
            bodies.append(view[body : body + length])
            start = body + length
        if start < end:
            self._partial += view[start:]
        return bodies

    def _complete(self, view: memoryview, bodies: list[Buffer]) -> int:
        """Move into the partial frame what belongs to it; return how much that was."""
        partial = self._partial
        taken = max(0, min(PREFIX_BYTES - len(partial), len(view)))
        partial += view[:taken]
        if len(partial) < PREFIX_BYTES:
            return taken
        length = self._length(partial[:PREFIX_BYTES])
        if length >= LONG_BYTES:
            self._partial = bytearray()
            self._begin_long(length)
            self._fill(memoryview(partial)[PREFIX_BYTES:], bodies)
            return taken + self._fill(view[taken:], bodies)
        missing = PREFIX_BYTES + length - len(partial)
        rest = view[taken : taken + missing]
        partial += rest
        if len(rest) == missing:
            bodies.append(memoryview(partial)[PREFIX_BYTES:])
            self._partial = bytearray()
        return taken + len(rest)

    def _begin_long(self, length: int) -> None:
        self._long = self._allocate(length)
        self._missing = length

    def _fill(self, view: memoryview, bodies: list[Buffer]) -> int:
        """Move into the long frame what belongs to it; return how much that was."""
        part = view[: self._missing]
        self.room[: len(part)] = part
        bodies += self.wrote(len(part))
        return len(part)

    def _length(self, octets: memoryview | bytearray) -> int:
        length = int.from_bytes(octets, "big")
        if length > self._frame_bytes_max:
            raise ProtocolError(f"a frame of {length} bytes, and the limit is {self._frame_bytes_max}")
        return length
