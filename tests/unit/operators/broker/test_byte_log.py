"""Byte strings in segments of files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from operators.broker.byte_log import ByteLog, LogFull, MemoryTier
from operators.broker.segments import Extent, Segments
from operators.errors import RequestRefused


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def log(folder: Path, segment_bytes: int = 16, bytes_max: int = 1 << 20, memory: int = 0) -> ByteLog:
    return ByteLog(
        folder,
        segment_bytes,
        MemoryTier(memory),
        exceeds=lambda size, occupied: "it is full" if occupied + size > bytes_max else None,
        overfills=lambda size, free: None,
    )


def test_what_is_appended_is_read_until_its_segment_is_free(tmp_path: Path):
    log_, before = log(tmp_path), open_files()
    data = [os.urandom(7) for _ in range(7)]
    extents = [log_.append(one) for one in data]
    assert (log_.occupied, open_files() - before) == (49, 3), "three strings fill a segment"
    assert list(tmp_path.iterdir()) == [], "nothing is left behind, however the process ends"
    assert [log_.read(extent) for extent in extents] == data
    for extent in (extents[0], extents[2], extents[3]):
        log_.drop(extent)
    assert (log_.occupied, log_.read(extents[1])) == (49, data[1])
    log_.drop(extents[1])
    assert (log_.occupied, open_files() - before) == (28, 2)
    with pytest.raises(RequestRefused, match="no longer kept"):
        log_.read(extents[1])
    for extent in extents[4:]:
        log_.drop(extent)
    assert (log_.occupied, open_files()) == (0, before)
    assert log_.read(log_.append(b"again")) == b"again"


def test_what_is_young_is_in_memory_while_there_is_room(tmp_path: Path):
    log_, before = log(tmp_path, memory=10), open_files()
    first, second, third = (log_.append(one) for one in (b"1234567", b"abcdefg", b"xyz"))
    assert (log_.occupied, open_files() - before) == (17, 1), "the second is in a file"
    assert [log_.read(extent) for extent in (first, second, third)] == [b"1234567", b"abcdefg", b"xyz"]
    log_.drop(first)
    with pytest.raises(RequestRefused, match="no longer kept"):
        log_.read(first)
    log_.append(b"7654321")
    log_.drop(second)
    assert (log_.occupied, open_files()) == (10, before)


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path):
    log_ = log(tmp_path, bytes_max=10)
    extent = log_.append(b"12345678")
    with pytest.raises(LogFull, match="it is full"):
        log_.append(b"123")
    assert log_.occupied == 8
    log_.drop(extent)
    assert log_.read(log_.append(b"123")) == b"123"


def test_a_directory_that_cannot_be_written_to_is_named(tmp_path: Path):
    log_ = log(tmp_path / "gone")
    with pytest.raises(LogFull, match=r"cannot write to its temporary directory .*/gone: No such file or directory"):
        log_.append(b"123")
    (tmp_path / "gone").mkdir()
    assert log_.read(log_.append(b"123")) == b"123"


def test_the_place_of_what_was_not_written_goes_to_the_next_unless_more_has_come_behind_it():
    segments = Segments(100)
    failed = segments.append(10)
    assert segments.append(10) == Extent(0, 10, 10)
    assert not segments.take_back(failed)
    assert not segments.take_back(segments.append(10))
    assert (segments.append(10), segments.occupied) == (Extent(0, 20, 10), 30)


def test_threads_append_and_read_side_by_side(tmp_path: Path):
    log_ = log(tmp_path, segment_bytes=10_000)

    def work(number: int) -> bool:
        data = [bytes([number]) * (one % 700) for one in range(300)]
        extents = [log_.append(one) for one in data]
        same = [log_.read(extent) for extent in extents] == data
        for extent in extents:
            log_.drop(extent)
        return same

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert log_.occupied == 0
