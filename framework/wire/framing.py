"""Where one message ends and the next begins: four bytes of length, big-endian, and then the body.

A length above the limit is refused as soon as it is read, before anything of its body is kept.
"""

from __future__ import annotations

from framework.errors import ProtocolError
from framework.wire.codec import Buffer

FRAME_BYTES_MAX = 16 * 1024 * 1024
PREFIX_BYTES = 4


def prefix(body_bytes: int, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """What goes before a body of this length."""
    assert body_bytes <= frame_bytes_max, body_bytes
    return body_bytes.to_bytes(PREFIX_BYTES, "big")


def frame(body: bytes, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """A body with its prefix."""
    return prefix(len(body), frame_bytes_max=frame_bytes_max) + body


class FrameReader:
    """Bytes in as they come, bodies out as they are complete.

    Whole frames are slices of what was fed, without a copy; only a frame that is not yet complete is gathered.
    """

    __slots__ = ("_frame_bytes_max", "_partial")

    def __init__(self, *, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._partial = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._partial)

    def feed(self, data: bytes) -> list[Buffer]:
        """The bodies that `data` completes, in order. They stay valid: they are views of memory nobody else writes."""
        view = memoryview(data)
        bodies: list[Buffer] = []
        start = self._complete(view, bodies) if self._partial else 0
        end = len(view)
        while end - start >= PREFIX_BYTES:
            body = start + PREFIX_BYTES
            stop = body + self._length(view[start:body])
            if stop > end:
                break
            bodies.append(view[body:stop])
            start = stop
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
        missing = PREFIX_BYTES + self._length(partial[:PREFIX_BYTES]) - len(partial)
        rest = view[taken : taken + missing]
        partial += rest
        if len(rest) == missing:
            bodies.append(memoryview(partial)[PREFIX_BYTES:])
            self._partial = bytearray()
        return taken + len(rest)

    def _length(self, octets: memoryview | bytearray) -> int:
        length = int.from_bytes(octets, "big")
        if length > self._frame_bytes_max:
            raise ProtocolError(f"a frame of {length} bytes, and the limit is {self._frame_bytes_max}")
        return length
