"""Memory that two processes of one machine see: one lends it, the other borrows it.

It has no name that would stay behind: it is a file of the kernel's that is opened through the lender's descriptor, and
gone with the last process that has it. It begins with a random token that the lender tells the borrower over their
link, so that a descriptor of another process, or of another machine's, is not mistaken for it; and it cannot be made
smaller, so that nobody is struck while reading.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import weakref
from collections import deque
from typing import Any

from framework.errors import ProtocolError
from framework.wire.codec import Buffer
from framework.wire.framing import FRAME_BYTES_MAX
from framework.wire.messages import Body
from framework.wire.shm_messages import TOKEN_BYTES, BlockAllocator, Offer, Placed, Returned

UNREAD_BYTES_MAX = 2 * FRAME_BYTES_MAX
"""When the other end has not come to more than this, sources pause. With less, a few large batches would have them wait
for an end that is not behind: while it works on one, another should be there."""

LENT_BYTES = 2 * UNREAD_BYTES_MAX
"""What an end of a link lends: the other end may keep what it has come to. The system gives it out as it is used."""

UNTOLD_BYTES_MAX, UNTOLD_BLOCKS_MAX = 1024 * 1024, 16
"""So much is read, or so many blocks are no more needed, before the lender is told, unless something else is said."""

BEFORE_BYTES, BEHIND_BYTES = 4096, 64
"""What a room has before and behind what is written to it: for what a body has beside its large pieces."""


class OutboundSegment:
    """What this end of a link lends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.ftruncate(descriptor, LENT_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(descriptor, LENT_BYTES)
        token = secrets.token_bytes(TOKEN_BYTES)
        self._memory[:TOKEN_BYTES] = token
        self._blocks = BlockAllocator(TOKEN_BYTES, LENT_BYTES)
        self._placed: dict[int, int] = {}
        """The blocks that bodies are in, by where these start."""
        self._address = 0
        """Where this memory is for this process, once there was a room."""
        self._rooms: dict[int, tuple[int, weakref.ref[Any]]] = {}
        """Where blocks end that somebody writes to, by where they start."""
        self._abandoned: deque[int] = deque()
        """Those of them that nobody refers to any more. Whoever drops the last reference may be another thread."""
        self._placed_bytes = 0
        self._read_bytes = 0
        self.offer = Offer(os.getpid(), descriptor, LENT_BYTES, token)
        """What the other end must know."""

    @staticmethod
    def open() -> OutboundSegment | None:
        """Memory to lend, if this system can."""
        try:
            return OutboundSegment(os.memfd_create("hailer-link", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        except (AttributeError, OSError):  # not Linux, or it has no memory or descriptor left
            return None

    @property
    def unread_bytes(self) -> int:
        """How much the other end has not come to yet."""
        return self._placed_bytes - self._read_bytes

    def opened(self) -> None:
        """The other end has it: the descriptor is not needed any more."""
        os.close(self._descriptor)
        self._descriptor = -1

    def room(self, size: int) -> memoryview | None:
        """A free block to write so many bytes to, if there is one.

        A body whose large pieces were written there, one behind the other, need not be copied when it is placed. From
        then on it is the other end's, and nobody here may look at it. A block that nothing was placed in is free again
        when nothing refers to it.
        """
        import numpy as np

        whole = BEFORE_BYTES + size + BEHIND_BYTES
        start = self._take(whole)
        if start is None:
            return None
        block: Any = np.frombuffer(self._memory, np.uint8, whole, start)
        self._address = self._address or block.ctypes.data - start
        self._rooms[start] = start + whole, weakref.ref(block, lambda _: self._abandoned.append(start))
        return memoryview(block)[BEFORE_BYTES : BEFORE_BYTES + size]

    def place(self, body: Body, size: int) -> Placed | None:
        """Write a body to a free block, if there is one; what was written to a room already stays there."""
        in_room = self._start_in_room(body, size) if self._rooms else None
        start = self._take(size) if in_room is None else in_room
        if start is None:
            return None
        if in_room is None:
            self._placed[start] = start
        at = start
        for piece in body:
            if in_room is None or self._offset_of(piece) < 0:
                self._memory[at : at + len(piece)] = piece
            at += len(piece)
        self._placed_bytes += size
        return Placed(start, size)

    def _take(self, size: int) -> int | None:
        while self._abandoned:
            abandoned = self._abandoned.popleft()
            del self._rooms[abandoned]
            self._blocks.give_back(abandoned)
        return self._blocks.take(size)

    def _start_in_room(self, body: Body, size: int) -> int | None:
        """Where a body starts whose large pieces are in a room, each where it belongs; the room is its block then."""
        start = self._start_by_pieces(body)
        if start is None:
            return None
        for room, (end, _) in self._rooms.items():
            if room <= start and start + size <= end:
                del self._rooms[room]
                self._placed[start] = room
                return start
        return None

    def _start_by_pieces(self, body: Body) -> int | None:
        """Where a body starts according to those of its pieces that are in this memory, if they agree: then all others
        can be written between them."""
        starts, before = set[int](), 0
        for piece in body:
            at = self._offset_of(piece)
            if at >= 0:
                starts.add(at - before)
            before += len(piece)
        return starts.pop() if len(starts) == 1 else None

    def _offset_of(self, piece: Buffer) -> int:
        """Where a piece that knows its address is in this memory; -1 if it is not, or knows none."""
        at = getattr(piece, "address", 0) - self._address
        return at if 0 <= at < LENT_BYTES else -1

    def take_back(self, returned: Returned) -> None:
        """The other end has come so far."""
        if not self._read_bytes <= returned.read_bytes <= self._placed_bytes:
            raise ProtocolError(f"{returned.read_bytes} bytes were read of {self._placed_bytes} that were placed")
        self._read_bytes = returned.read_bytes
        for start in returned.starts:
            block = self._placed.pop(start, None)
            if block is None:
                raise ProtocolError(f"a body at {start} was returned, where none is")
            self._blocks.give_back(block)

    def close(self) -> None:
        """Let go of it. What the other end still refers to stays until it does not."""
        if self._descriptor >= 0:
            self.opened()
        with contextlib.suppress(BufferError):  # somebody still has a room, and with that goes the rest
            self._memory.close()


class InboundSegment:
    """What the other end of a link lends."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._read_bytes = 0
        self._told_bytes = 0
        self._referred: dict[int, weakref.ref[Any]] = {}
        """Blocks that somebody refers to, by their starts."""
        self._returned: deque[int] = deque()
        """Those that nobody does. Whoever drops the last reference may be another thread."""

    @staticmethod
    def open(offer: Offer) -> InboundSegment | None:
        """The memory that was offered, if it can be seen from here."""
        path = f"/proc/{offer.process}/fd/{offer.descriptor}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if not sealed or not TOKEN_BYTES < os.fstat(descriptor).st_size == offer.size <= LENT_BYTES:
                return None
            memory = mmap.mmap(descriptor, offer.size, access=mmap.ACCESS_READ)
        except OSError:  # it is no memory at all, or there is no room for it
            return None
        finally:
            os.close(descriptor)
        return InboundSegment(memory) if memory[:TOKEN_BYTES] == offer.token else None

    def view(self, placed: Placed) -> memoryview:
        """The body that was placed. Its block is returned when nothing refers to it any more."""
        import numpy as np

        start, size = placed.start, placed.size
        if start < TOKEN_BYTES or not 0 < size <= len(self._memory) - start or start in self._referred:
            raise ProtocolError(f"a body of {size} bytes at {start}, where none can be")
        # An object of its own for each block: slices of a view refer to it, and not to the view.
        block: Any = np.frombuffer(self._memory, np.uint8, size, start)
        self._referred[start] = weakref.ref(block, lambda _: self._let_go(start))
        self._read_bytes += size
        return memoryview(block)

    def _let_go(self, start: int) -> None:
        del self._referred[start]
        self._returned.append(start)

    @property
    def must_tell(self) -> bool:
        """Whether the other end should hear of what it has not heard of."""
        return self._read_bytes - self._told_bytes >= UNTOLD_BYTES_MAX or len(self._returned) >= UNTOLD_BLOCKS_MAX

    def tell(self) -> Returned | None:
        """What the other end has not heard of, if anything."""
        if self._told_bytes == self._read_bytes and not self._returned:
            return None
        self._told_bytes = self._read_bytes
        return Returned(self._read_bytes, tuple(self._returned.popleft() for _ in range(len(self._returned))))
