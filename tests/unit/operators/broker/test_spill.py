"""Byte strings in memory and on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from operators.broker.spill import SpillBuffer
from operators.errors import RequestRefused


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_exceeds_memory_goes_to_disk_and_comes_back():
    spill = SpillBuffer(memory_bytes_max=10, segment_bytes=16)
    before = open_files()
    data = [os.urandom(7) for _ in range(6)]
    blobs = [spill.keep(one) for one in data]
    assert (spill.memory_bytes, spill.disk_bytes) == (7, 35)
    assert open_files() - before == 2, "three strings fill a file"
    assert [spill.fetch(blob) for blob in blobs] == data
    for blob in blobs:
        spill.drop(blob)
    assert (spill.memory_bytes, spill.disk_bytes) == (0, 0)
    assert open_files() - before == 1, "a file goes when nothing in it is needed; the last is written on"


def test_what_was_dropped_is_not_there_any_more():
    spill = SpillBuffer(memory_bytes_max=0)
    blob = spill.keep(b"gone soon")
    spill.drop(blob)
    with pytest.raises(RequestRefused, match="not kept any more"):
        spill.fetch(blob)


def test_a_full_disk_is_refused_and_room_can_be_made():
    spill = SpillBuffer(memory_bytes_max=0, disk_bytes_max=10)
    blob = spill.keep(b"12345678")
    with pytest.raises(RequestRefused, match="holds 8 bytes on disk"):
        spill.keep(b"123")
    spill.drop(blob)
    assert spill.fetch(spill.keep(b"123")) == b"123"
