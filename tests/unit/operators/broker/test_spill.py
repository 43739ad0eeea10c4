"""Byte strings in memory and on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from operators.broker.errors import RequestRefused
from operators.broker.spill import SpillBuffer


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_exceeds_memory_goes_to_disk_and_comes_back():
    depot = SpillBuffer(memory_bytes_max=10, segment_bytes=16)
    before = open_files()
    data = [os.urandom(7) for _ in range(6)]
    parcels = [depot.keep(one) for one in data]
    assert (depot.in_memory, depot.on_disk) == (7, 35)
    assert open_files() - before == 2, "three strings fill a file"
    assert [depot.fetch(parcel) for parcel in parcels] == data
    for parcel in parcels:
        depot.drop(parcel)
    assert (depot.in_memory, depot.on_disk) == (0, 0)
    assert open_files() - before == 1, "a file goes when nothing in it is needed; the last is written on"


def test_what_was_dropped_is_not_there_any_more():
    depot = SpillBuffer(memory_bytes_max=0)
    parcel = depot.keep(b"gone soon")
    depot.drop(parcel)
    with pytest.raises(RequestRefused, match="not kept any more"):
        depot.fetch(parcel)


def test_a_full_disk_is_refused_and_room_can_be_made():
    depot = SpillBuffer(memory_bytes_max=0, disk_bytes_max=10)
    parcel = depot.keep(b"12345678")
    with pytest.raises(RequestRefused, match="holds 8 bytes on disk"):
        depot.keep(b"123")
    depot.drop(parcel)
    assert depot.fetch(depot.keep(b"123")) == b"123"
