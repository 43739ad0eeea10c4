"""Byte strings, in memory up to a budget and spilled to files beyond it.

The files are unlinked: however the process ends, their space is free again. A file is closed once all that it holds has
been dropped.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass, field

from operators.errors import RequestRefused

MEMORY_BYTES = 256 * 1024 * 1024
DISK_BYTES = 64 * 1024 * 1024 * 1024
SEGMENT_BYTES = 64 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _Segment:
    descriptor: int
    written: int = 0
    held: int = 0
    """How many blobs it holds that were not dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class Blob:
    """A byte string in a spill buffer."""

    size: int
    data: bytes | None
    segment: _Segment | None = None
    offset: int = 0


@dataclass(slots=True)
class SpillBuffer:
    """Keeps byte strings in memory, and in temporary files beyond a budget. Thread-safe."""

    memory_bytes_max: int = MEMORY_BYTES
    disk_bytes_max: int = DISK_BYTES
    segment_bytes: int = SEGMENT_BYTES
    memory_bytes: int = 0
    disk_bytes: int = 0
    _segment: _Segment | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, data: bytes) -> Blob:
        """Keep a byte string; `RequestRefused` if there is no room for it."""
        with self._lock:
            if self.memory_bytes + len(data) <= self.memory_bytes_max:
                self.memory_bytes += len(data)
                return Blob(len(data), data)
            if self.disk_bytes + len(data) > self.disk_bytes_max:
                raise RequestRefused(
                    f"the job holds {self.disk_bytes:,} bytes on disk that it has not taken in, or that nobody has "
                    f"read; let a stream read its outputs"
                )
            return self._spill(data)

    def fetch(self, blob: Blob) -> bytes:
        """The byte string; `RequestRefused` if it was dropped meanwhile."""
        if blob.segment is None:
            assert blob.data is not None
            return blob.data
        with self._lock:
            if not blob.segment.held:
                raise RequestRefused("what was asked for is not kept any more")
            data = os.pread(blob.segment.descriptor, blob.size, blob.offset)
        assert len(data) == blob.size, (len(data), blob)
        return data

    def drop(self, blob: Blob) -> None:
        """Free a byte string."""
        with self._lock:
            if blob.segment is None:
                self.memory_bytes -= blob.size
                return
            self.disk_bytes -= blob.size
            blob.segment.held -= 1
            if not blob.segment.held and blob.segment is not self._segment:
                os.close(blob.segment.descriptor)

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
        self.disk_bytes += len(data)
        return Blob(len(data), None, segment, offset)
