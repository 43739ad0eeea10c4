"""A log of byte strings: the first in memory, up to what a broker has for all its logs, the others in temporary files.

Files are appended to in segments, and unlinked: their space is free however we end. Nothing is synced. They are written
and read outside of the lock, so that threads do not wait for each other's bytes.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from operators.broker.segments import Extent, Segments
from operators.errors import RequestRefused

IN_MEMORY = -1
"""The segment of what is in memory."""


class LogFull(Exception):
    """A byte string is not appended: a budget or the disk is used up. The text says which."""


class MemoryTier:
    """How much of several logs is in memory. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = self._free = bytes_max
        self._lock = threading.Lock()

    @property
    def has_room(self) -> bool:
        """Whether more than a sixteenth is left: of the usual size, as much as the largest message has."""
        return self._free > self._bytes_max // 16

    def take(self, size: int) -> bool:
        """Whether there is room, which is taken then."""
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
            return True

    def give_back(self, size: int) -> None:
        """Free what was taken."""
        with self._lock:
            self._free += size


class ByteLog:
    """Keeps byte strings in memory, and in files in `directory`. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        segment_bytes: int,
        memory: MemoryTier,
        *,
        exceeds: Callable[[int, int], str | None],
        overfills: Callable[[int, int], str | None],
    ) -> None:
        """Why a byte string is not appended, if so: from its size, and how many bytes the log has, or the disk free."""
        self._directory = directory
        self._memory = memory
        self._exceeds = exceeds
        self._overfills = overfills
        self._segments = Segments(segment_bytes)
        self._files: dict[int, _File] = {}
        self._young: dict[int, bytes] = {}
        """What is in memory, by its number there."""
        self._young_bytes = 0
        self._numbers = 0
        self._lock = threading.Lock()

    @property
    def occupied(self) -> int:
        """How many bytes it takes, in memory and on disk."""
        return self._segments.occupied + self._young_bytes

    def append(self, data: bytes) -> Extent:
        """Keep a byte string; `LogFull` if it is not, and nothing of it is."""
        try:
            with self._lock:
                if (refusal := self._exceeds(len(data), self.occupied)) is not None:
                    raise LogFull(refusal)
                if self._memory.take(len(data)):
                    return self._remember(data)
                if (refusal := self._overfills(len(data), free_bytes(self._directory))) is not None:
                    raise LogFull(refusal)
                extent = self._segments.append(len(data))
                try:
                    file = self._file(extent.segment)
                except OSError:
                    self._take_back(extent)
                    raise
            try:
                file.write(data, extent.offset)
            except OSError:
                with self._lock:
                    self._take_back(extent)
                raise
        except OSError as error:
            raise LogFull(
                f"the job's first worker cannot write to its temporary directory {self._directory}: {error.strerror}"
            ) from error
        return extent

    def read(self, extent: Extent) -> bytes:
        """A byte string; `RequestRefused` if it is no longer kept."""
        with self._lock:
            if extent.segment == IN_MEMORY and extent.offset in self._young:
                return self._young[extent.offset]
            file = self._files.get(extent.segment)
        if file is None:
            raise RequestRefused("what was asked for is no longer kept")
        return file.read(extent.size, extent.offset)

    def drop(self, extent: Extent) -> None:
        """Free a byte string."""
        with self._lock:
            self._drop(extent)

    def _drop(self, extent: Extent) -> None:
        if extent.segment == IN_MEMORY:
            del self._young[extent.offset]
            self._young_bytes -= extent.size
            self._memory.give_back(extent.size)
        elif self._segments.drop(extent):
            self._files.pop(extent.segment, None)

    def _take_back(self, extent: Extent) -> None:
        if self._segments.take_back(extent):
            self._files.pop(extent.segment, None)

    def _remember(self, data: bytes) -> Extent:
        self._numbers += 1
        self._young[self._numbers] = data
        self._young_bytes += len(data)
        return Extent(IN_MEMORY, self._numbers, len(data))

    def _file(self, segment: int) -> _File:
        if segment not in self._files:
            self._files[segment] = _File(self._directory)
        return self._files[segment]


class _File:
    """An unlinked file. It is closed with the last reference: who reads or writes it keeps it open."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = -1
        with tempfile.TemporaryFile(prefix="hailer-", dir=directory) as file:
            self._descriptor = os.dup(file.fileno())

    def write(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written

    def read(self, size: int, offset: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        assert len(data) == size, (len(data), size, offset)
        return data

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def free_bytes(directory: Path) -> int:
    """How much may still be written to the disk that a directory is on."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def disk_bytes(directory: Path) -> int:
    """How large the disk is that a directory is on."""
    found = os.statvfs(directory)
    return found.f_blocks * found.f_frsize
