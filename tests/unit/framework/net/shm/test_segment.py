"""Which memory a reader maps: the one that was offered, and nothing that could be made smaller."""

from __future__ import annotations

import errno
import mmap
import os
from dataclasses import replace

import pytest

from framework.net.shm.segment import POPULATED_BYTES, UNREPORTED_BLOCKS_MAX, InboundSegment, OutboundSegment
from framework.wire.shm_messages import Offer, Returned

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no anonymous files")


def test_other_memory_is_not_taken_for_what_was_offered() -> None:
    outbound, other = OutboundSegment.open(), OutboundSegment.open()
    assert outbound is not None
    assert other is not None
    assert InboundSegment.open(replace(other.offer, token=outbound.offer.token)) is None
    assert InboundSegment.open(replace(outbound.offer, size=outbound.offer.size - 4096)) is None
    assert InboundSegment.open(replace(outbound.offer, descriptor=99_999)) is None
    assert InboundSegment.open(replace(outbound.offer, process=2**40)) is None
    assert InboundSegment.open(outbound.offer) is not None
    outbound.close()
    other.close()


def test_a_file_that_could_be_made_smaller_is_not_taken() -> None:
    descriptor = os.memfd_create("not-sealed", os.MFD_ALLOW_SEALING)
    os.write(descriptor, bytes(4096))
    assert InboundSegment.open(Offer(os.getpid(), descriptor, 4096, bytes(32))) is None
    os.close(descriptor)


def test_what_is_no_memory_is_not_taken() -> None:
    reader, writer = os.pipe()
    assert InboundSegment.open(Offer(os.getpid(), reader, 4096, bytes(32))) is None
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("granted", [0, 1])
def test_a_system_without_memory_is_told_before_anything_is_written(
    granted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing to a page that the system has no memory for would end the process."""

    class Scarce(mmap.mmap):
        asked = 0

        def madvise(self, *arguments: int) -> None:
            Scarce.asked += 1
            if Scarce.asked > granted:
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
            super().madvise(*arguments)

    monkeypatch.setattr(mmap, "mmap", Scarce)
    segment = OutboundSegment.open()
    assert (segment is not None) is bool(granted)
    if segment is not None:
        size = POPULATED_BYTES
        assert segment.write([b"x" * size], size) is None
        assert segment.reserve(size) is None
        assert segment.write([b"x" * 1000], 1000) is not None
        segment.close()


def test_blocks_are_reported_that_are_released_long_after_they_were_read() -> None:
    outbound = OutboundSegment.open()
    assert outbound is not None
    inbound = InboundSegment.open(outbound.offer)
    assert inbound is not None
    bodies = [outbound.write([b"x" * 1000], 1000) for _ in range(UNREPORTED_BLOCKS_MAX)]
    views = [inbound.view(body) for body in bodies if body is not None]
    assert inbound.report() == Returned(1000 * len(views), ())
    assert not inbound.report_due
    views.clear()
    assert inbound.report_due
    returned = inbound.report()
    assert returned is not None
    outbound.take_back(returned)
    assert outbound.write([b"y" * 1000], 1000) == bodies[0]
    outbound.close()
