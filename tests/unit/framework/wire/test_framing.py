"""Frames cut anywhere come out whole, and a frame that is too long is refused before it is kept."""

from __future__ import annotations

import pytest

from framework.errors import ProtocolError
from framework.wire.framing import FrameReader, frame

BODIES = [b"", b"a", b"bc" * 100, b"", b"d" * 70_000]


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 7, 64, 1_000_000])
def test_bodies_survive_any_cut(chunk: int) -> None:
    stream = b"".join(map(frame, BODIES))
    reader = FrameReader()
    bodies = [
        bytes(body) for start in range(0, len(stream), chunk) for body in reader.feed(stream[start : start + chunk])
    ]
    assert bodies == BODIES
    assert reader.pending_bytes == 0


def test_bodies_stay_as_they_are_while_more_is_fed() -> None:
    reader = FrameReader()
    reader.feed(frame(b"first")[:6])
    first, second = reader.feed(frame(b"first")[6:] + frame(b"second"))
    reader.feed(frame(b"xxxxx")[:8])
    reader.feed(frame(b"xxxxx")[8:] + frame(b"y" * 100_000))
    assert (bytes(first), bytes(second)) == (b"first", b"second")


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_a_long_frame_is_refused_by_its_prefix_alone(cut: int) -> None:
    reader = FrameReader(frame_bytes_max=10)
    assert [bytes(body) for body in reader.feed(frame(b"0123456789"))] == [b"0123456789"]
    prefix = (11).to_bytes(4, "big")
    assert reader.feed(prefix[:cut]) == []
    with pytest.raises(ProtocolError, match="11 bytes, and the limit is 10"):
        reader.feed(prefix[cut:])
    assert reader.pending_bytes <= 4


@pytest.mark.parametrize("cut", [1, 4, 5, 1_000])
def test_a_long_frame_is_written_where_it_stays(cut: int) -> None:
    body, made = bytes(range(256)) * 1_000, list[memoryview]()

    def allocate(size: int) -> memoryview:
        made.append(memoryview(bytearray(size)))
        return made[-1]

    reader = FrameReader(allocate=allocate)
    sent = frame(b"short") + frame(body) + frame(b"next")
    bodies = reader.feed(sent[: 9 + cut])
    rest = sent[9 + cut :]
    while room := reader.room:
        count = min(len(room), 70_000)
        room[:count] = rest[:count]
        rest = rest[count:]
        bodies += reader.wrote(count)
    bodies += reader.feed(rest)
    assert list(map(bytes, bodies)) == [b"short", body, b"next"]
    assert len(made) == 1
    assert reader.pending_bytes == 0


def test_many_small_frames_are_not_copied() -> None:
    stream = frame(b"x" * 10) * 1000
    bodies = FrameReader().feed(stream)
    assert {id(memoryview(body).obj) for body in bodies} == {id(stream)}


def test_a_body_beyond_the_limit_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        frame(b"123", frame_bytes_max=2)
