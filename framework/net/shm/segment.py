"""Memory that two processes of one machine map: one writes bodies to it, the other reads them in place.

It is an anonymous file (`memfd`) that the reader opens through the writer's descriptor in `/proc`: it has no name that
could be left behind, and is gone with the last process that maps it. It begins with a random token that the writer
sends over the link, so that a descriptor of another process, or of another machine's, is not mistaken for it. It is
sealed against shrinking: a truncated mapping would raise SIGBUS in the reader.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import secrets
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

from framework.errors import ProtocolError
from framework.net.shm.allocator import BlockAllocator
from framework.net.shm.reservation import BEFORE_BYTES, BEHIND_BYTES, ShmReservation
from framework.wire.body import Body
from framework.wire.codec import Buffer
from framework.wire.container import Reservation
from framework.wire.framing import FRAME_BYTES_MAX
from framework.wire.shm_messages import TOKEN_BYTES, BodyRef, Offer, Returned

UNREAD_BYTES_MAX = 2 * FRAME_BYTES_MAX
"""Beyond this, sources pause: the back-pressure of shared memory. With less, a few large batches would pause them for
a reader that is not behind: while it works on one, the next should be there."""

SEGMENT_BYTES = 2 * UNREAD_BYTES_MAX
"""More than may be unread, for the reader may keep what it has read. Pages are allocated as they are first used."""

MADV_POPULATE_WRITE = 23
"""linux/mman.h since 5.14. Allocates pages, or fails where writing to them would raise SIGBUS."""
POPULATED_BYTES = 1024 * 1024
"""How much is allocated at once."""

UNREPORTED_BYTES_MAX, UNREPORTED_BLOCKS_MAX = 1024 * 1024, 16
"""How many bytes are read, or blocks released, before a report is a reason to write to the socket."""


class OutboundSegment:
    """What this end of a link writes to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.ftruncate(descriptor, SEGMENT_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(descriptor, SEGMENT_BYTES)
        self._populated = 0
        """Pages before this have been allocated."""
        if not self._populate(TOKEN_BYTES):
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        token = secrets.token_bytes(TOKEN_BYTES)
        self._memory[:TOKEN_BYTES] = token
        self._allocator = BlockAllocator(TOKEN_BYTES, SEGMENT_BYTES)
        self._blocks: dict[int, int] = {}
        """The block that each body is in which the reader has, by the body's start."""
        self._address = 0
        """Where this process has mapped it, once something was reserved."""
        self._reserved: dict[int, weakref.ref[Any]] = {}
        """Reserved blocks that were not given to the other end, by their starts."""
        self._abandoned: deque[int] = deque()
        """Those of them that nothing refers to. Another thread may drop the last reference."""
        self._written_bytes = 0
        self._read_bytes = 0
        self.offer = Offer(os.getpid(), descriptor, SEGMENT_BYTES, token)
        """What the other end needs to map it."""

    @staticmethod
    def open() -> OutboundSegment | None:
        """A new segment; None where the system has none to give."""
        try:
            return OutboundSegment(os.memfd_create("hailer-link", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        except (AttributeError, OSError):  # not Linux, or it has no memory or descriptor left
            return None

    @property
    def unread_bytes(self) -> int:
        """How many bytes the other end has not read yet."""
        return self._written_bytes - self._read_bytes

    def close_descriptor(self) -> None:
        """The other end has mapped it and no longer needs the descriptor."""
        os.close(self._descriptor)
        self._descriptor = -1

    def reserve(self, size: int) -> ShmReservation | None:
        """A free block for a body whose large pieces take `size` bytes, if there is one."""
        import numpy as np

        whole = BEFORE_BYTES + size + BEHIND_BYTES
        start = self._allocate(whole)
        if start is None:
            return None
        block: Any = np.frombuffer(self._memory, np.uint8, whole, start)
        self._address = self._address or block.ctypes.data - start
        self._reserved[start] = weakref.ref(block, lambda _: self._abandoned.append(start))
        return ShmReservation(self, start, memoryview(block), self._address)

    def write(self, body: Body, size: int, reservation: Reservation | None = None) -> BodyRef | None:
        """Give a body to the other end, in the block that was reserved for it or in a free one, if there is one.

        Pieces that are in the reservation, each where it belongs, are not copied.
        """
        if isinstance(reservation, ShmReservation) and reservation.segment is self:
            offsets = reservation.offsets(body)
            start = reservation.start_of(body, size, offsets)
            if start is not None:
                reservation.segment = None
                del self._reserved[reservation.start]
                self._blocks[start] = reservation.start
                return self._fill(start, size, zip(body, offsets, strict=True))
        start = self._allocate(size)
        if start is None:
            return None
        self._blocks[start] = start
        return self._fill(start, size, ((piece, None) for piece in body))

    def _fill(self, start: int, size: int, pieces: Iterable[tuple[Buffer, int | None]]) -> BodyRef:
        """Write those pieces of a body that are not in this memory, at an offset, already."""
        at = start
        for piece, offset in pieces:
            if offset is None:
                self._memory[at : at + len(piece)] = piece
            at += len(piece)
        self._written_bytes += size
        return BodyRef(start, size)

    def _allocate(self, size: int) -> int | None:
        while self._abandoned:
            abandoned = self._abandoned.popleft()
            del self._reserved[abandoned]
            self._allocator.free(abandoned)
        start = self._allocator.allocate(size)
        if start is not None and not self._populate(start + size):
            self._allocator.free(start)
            return None
        return start

    def _populate(self, end: int) -> bool:
        """Have the system allocate the pages before `end`; whether it has the memory."""
        if end > self._populated:
            aim = min(-(-end // POPULATED_BYTES) * POPULATED_BYTES, SEGMENT_BYTES)
            try:
                self._memory.madvise(MADV_POPULATE_WRITE, self._populated, aim - self._populated)
            except OSError as error:
                if error.errno != errno.EINVAL:  # which an older system says
                    return False
            self._populated = aim
        return True

    def take_back(self, returned: Returned) -> None:
        """The other end has read so far and has released these blocks."""
        if not self._read_bytes <= returned.read_bytes <= self._written_bytes:
            raise ProtocolError(f"{returned.read_bytes} bytes were read of {self._written_bytes} that were written")
        self._read_bytes = returned.read_bytes
        for start in returned.starts:
            block = self._blocks.pop(start, None)
            if block is None:
                raise ProtocolError(f"a body at {start} was returned, where none is")
            self._allocator.free(block)

    def close(self) -> None:
        """Unmap it. The other end keeps its own mapping for as long as it refers to it."""
        if self._descriptor >= 0:
            self.close_descriptor()
        with contextlib.suppress(BufferError):  # a reservation still refers to it, and unmaps it in the end
            self._memory.close()


class InboundSegment:
    """What the other end of a link writes to, mapped read-only."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._read_bytes = 0
        self._reported_bytes = 0
        self._referenced: dict[int, weakref.ref[Any]] = {}
        """Bodies that something refers to, by their starts."""
        self._released: deque[int] = deque()
        """Those that nothing does, and that are still to be reported. Another thread may drop the last reference."""

    @staticmethod
    def open(offer: Offer) -> InboundSegment | None:
        """The memory that was offered, if it can be mapped from here."""
        path = f"/proc/{offer.process}/fd/{offer.descriptor}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
            if not sealed or not TOKEN_BYTES < os.fstat(descriptor).st_size == offer.size <= SEGMENT_BYTES:
                return None
            memory = mmap.mmap(descriptor, offer.size, access=mmap.ACCESS_READ)
        except OSError:  # it is no memory at all, or there is no room for it
            return None
        finally:
            os.close(descriptor)
        return InboundSegment(memory) if memory[:TOKEN_BYTES] == offer.token else None

    def view(self, reference: BodyRef) -> memoryview:
        """The body that is referred to. Its block is returned once nothing refers to it."""
        import numpy as np

        start, size = reference.start, reference.size
        if start < TOKEN_BYTES or not 0 < size <= len(self._memory) - start or start in self._referenced:
            raise ProtocolError(f"a body of {size} bytes at {start}, where none can be")
        # An array for each body, since slices of a memoryview refer to what is below it and not to the view.
        block: Any = np.frombuffer(self._memory, np.uint8, size, start)
        self._referenced[start] = weakref.ref(block, lambda _: self._release(start))
        self._read_bytes += size
        return memoryview(block)

    def _release(self, start: int) -> None:
        del self._referenced[start]
        self._released.append(start)

    @property
    def report_due(self) -> bool:
        """Whether there is enough to report for a frame of its own."""
        unreported_bytes = self._read_bytes - self._reported_bytes
        return unreported_bytes >= UNREPORTED_BYTES_MAX or len(self._released) >= UNREPORTED_BLOCKS_MAX

    def report(self) -> Returned | None:
        """What was read and released since the last report, if anything."""
        if self._reported_bytes == self._read_bytes and not self._released:
            return None
        self._reported_bytes = self._read_bytes
        return Returned(self._read_bytes, tuple(self._released.popleft() for _ in range(len(self._released))))
