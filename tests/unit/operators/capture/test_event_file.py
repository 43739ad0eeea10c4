"""`EventWriter` and `EventReader`: events in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import UnencodableRecord
from framework.progress.order import Product
from operators import EventReader, EventWriter
from operators.capture.event import CapturedEvent, MessagesEvent, ProgressEvent
from operators.capture.event_file import MARK
from operators.errors import CaptureCorrupt, CaptureTruncated

EVENTS: list[CapturedEvent] = [
    MessagesEvent(0, ["a", ("b", 1), None, {"c": [2.5]}]),
    ProgressEvent(((3, 1), (0, -1))),
    MessagesEvent(3, [b"x"]),
    ProgressEvent(((3, -1),)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "words.capture"
    writer = EventWriter(path)
    for event in EVENTS:
        writer.push(event)
    return path


def read(reader: EventReader) -> list[CapturedEvent]:
    cursor = reader.open(lambda: None)
    events = []
    try:
        while (event := cursor.next_event()) is not None:
            events.append(event)
    finally:
        cursor.close()
    assert cursor.ended
    return events


def test_what_was_written_is_read(path: Path):
    assert read(EventReader(path)) == EVENTS


def test_product_times(tmp_path: Path):
    events: list[CapturedEvent] = [MessagesEvent(Product(1, 2), [1]), ProgressEvent(((Product(0, 0), -1),))]
    writer = EventWriter(tmp_path / "nested")
    for event in events:
        writer.push(event)
    assert read(EventReader(tmp_path / "nested")) == events


def test_a_container_larger_than_a_frame_is_cut(tmp_path: Path):
    rows = [bytes(6_000_000)] * 5
    writer = EventWriter(tmp_path / "large")
    writer.push(MessagesEvent(0, rows))
    writer.push(ProgressEvent(((0, -1),)))
    *parts, end = read(EventReader(tmp_path / "large"))
    assert len(parts) > 1
    assert [row for part in parts if isinstance(part, MessagesEvent) for row in part.container] == rows  # type: ignore[attr-defined]
    assert end == ProgressEvent(((0, -1),))


def test_a_file_cut_off_anywhere_is_found_out(path: Path):
    """Whole events before the cut are read; the cut itself is reported, unless it is allowed."""
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CaptureTruncated, match=path.name):
            read(EventReader(path))
        if length >= len(MARK):
            events = read(EventReader(path, allow_truncated=True))
            assert events == EVENTS[: len(events)]
            assert len(events) < len(EVENTS)


def test_a_writer_that_is_closed_early_leaves_a_truncated_file(path: Path):
    writer = EventWriter(path)
    writer.push(EVENTS[0])
    writer.close()
    with pytest.raises(CaptureTruncated, match="ends after 1 events and 0 bytes, before the stream does"):
        read(EventReader(path))
    assert read(EventReader(path, allow_truncated=True)) == EVENTS[:1]


def test_progress_is_on_disk_before_the_file_is_closed(tmp_path: Path):
    writer = EventWriter(tmp_path / "live")
    for event in EVENTS[:3]:
        writer.push(event)
    assert read(EventReader(tmp_path / "live", allow_truncated=True))[:2] == EVENTS[:2]
    writer.close()


@pytest.mark.parametrize("content", [b"PK\x03\x04 something else", MARK.upper(), MARK[:-1] + b"?\n"])
def test_another_kind_of_file(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(CaptureCorrupt, match="is no capture"):
        read(EventReader(path))


def test_damage_is_found_out(path: Path):
    """Nonsense where a frame should be, a frame that is too long, an event that is missing."""
    whole = path.read_bytes()
    writer = EventWriter(path)
    writer.push(EVENTS[0])
    writer.close()
    first = path.read_bytes()
    writer = EventWriter(path)
    writer.push(EVENTS[0])
    writer.push(EVENTS[1])
    writer.close()
    second = path.read_bytes()[len(first) :]
    for content in (MARK + bytes(16), MARK + b"\xff" * 16, first + whole[len(first) + len(second) :] + second):
        path.write_bytes(content)
        with pytest.raises(CaptureCorrupt, match="is damaged after event"):
            read(EventReader(path))


def test_a_record_that_cannot_be_encoded(tmp_path: Path):
    writer = EventWriter(tmp_path / "words")
    with pytest.raises(UnencodableRecord, match=r"the capture into .*words"):
        writer.push(MessagesEvent(0, [object()]))
    writer.close()


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        EventReader(tmp_path / "nowhere").open(lambda: None)
