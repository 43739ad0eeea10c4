"""Byte strings, in memory up to a budget and in files beyond it.

The files have no name: whatever ends the process, the disk is free again. A file is let go of when all that it holds
has been dropped.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass, field

from operators.broker.errors import RequestRefused

MEMORY_BYTES = 256 * 1024 * 1024
DISK_BYTES = 64 * 1024 * 1024 * 1024
SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Segment:
    descriptor: int
    written: int = 0
    held: int = 0
    """How many parcels it holds that were not dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """A byte string in a depot."""

    size: int
    data: bytes | None
    segment: _Segment | None = None
    offset: int = 0


@dataclass(slots=True)
class SpillBuffer:
    """Keeps byte strings; any thread may ask."""

    memory_bytes_max: int = MEMORY_BYTES
    disk_bytes_max: int = DISK_BYTES
    segment_bytes: int = SEGMENT_BYTES
    in_memory: int = 0
    on_disk: int = 0
    _segment: _Segment | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, data: bytes) -> Blob:
        """Keep a byte string; `RequestRefused` if there is no room for it."""
        with self._lock:
            if self.in_memory + len(data) <= self.memory_bytes_max:
                self.in_memory += len(data)
                return Blob(len(data), data)
            if self.on_disk + len(data) > self.disk_bytes_max:
                raise RequestRefused(
                    f"the job holds {self.on_disk:,} bytes on disk that it has not taken in, or that nobody has read; "
                    f"let a stream read its outputs"
                )
            return self._spill(data)

    def fetch(self, parcel: Blob) -> bytes:
        """The byte string; `RequestRefused` if it was dropped meanwhile."""
        if parcel.segment is None:
            assert parcel.data is not None
            return parcel.data
        with self._lock:
            if not parcel.segment.held:
                raise RequestRefused("what was asked for is not kept any more")
            data = os.pread(parcel.segment.descriptor, parcel.size, parcel.offset)
        assert len(data) == parcel.size, (len(data), parcel)
        return data

    def drop(self, parcel: Blob) -> None:
        """Let go of a byte string."""
        with self._lock:
            if parcel.segment is None:
                self.in_memory -= parcel.size
                return
            self.on_disk -= parcel.size
            parcel.segment.held -= 1
            if not parcel.segment.held and parcel.segment is not self._segment:
                os.close(parcel.segment.descriptor)

    def _spill(self, data: bytes) -> Blob:
        segment = self._segment
        if segment is None or segment.written >= self.segment_bytes:
            if segment is not None and not segment.held:
                os.close(segment.descriptor)
            with tempfile.TemporaryFile(prefix="hailer-") as file:
                segment = self._segment = _Segment(os.dup(file.fileno()))
        offset = segment.written
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(segment.descriptor, memoryview(data)[written:], offset + written)
        except OSError as error:
            raise RequestRefused(f"the job cannot write to its temporary directory: {error.strerror}") from error
        segment.written += len(data)
        segment.held += 1
        self.on_disk += len(data)
        return Blob(len(data), None, segment, offset)
