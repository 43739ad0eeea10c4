"""Links between workers of one process, through their endpoints."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from framework.membership.members import WorkerId
from framework.net.endpoint import Endpoint, link_threads
from framework.wire.messages import Abort, Data, Goodbye, Lost, Message

A, B = WorkerId(3), WorkerId(8)


@pytest.fixture
def ends() -> Iterator[tuple[Endpoint, Endpoint]]:
    one, other = Endpoint(A), Endpoint(B)
    link_threads(one, other, records_max=100)
    yield one, other
    one.close()
    other.close()


def test_messages_are_handed_over_in_order_with_the_flush(ends: tuple[Endpoint, Endpoint]) -> None:
    one, other = ends
    rows = [object()]
    one.send(B, Data(0, 1, rows))
    one.send(B, Goodbye())
    assert other.receive() == []
    one.flush()
    received = other.receive()
    assert received == [(A, Data(0, 1, rows)), (A, Goodbye())]
    assert isinstance(received[0][1], Data)
    assert received[0][1].container is rows
    assert other.receive() == []
    assert one.receive() == []


def test_a_sender_is_congested_until_the_reader_has_caught_up(ends: tuple[Endpoint, Endpoint]) -> None:
    one, other = ends
    one.send(B, Data(0, 1, [0] * 101))
    one.flush()
    assert one.congested()
    assert not other.congested()
    begin = time.monotonic()
    reader = threading.Thread(target=other.receive)
    reader.start()
    one.park(30)
    reader.join()
    assert time.monotonic() - begin < 5
    assert not one.congested()


def test_a_park_ends_at_once_when_something_is_unread(ends: tuple[Endpoint, Endpoint]) -> None:
    one, other = ends
    for _ in range(2):
        one.send(B, Data(0, 1, [0] * 40_000))
        one.send(B, Data(0, 1, [0] * 40_000))
    one.flush()
    taken = 0
    while taken < 4:
        other.park(30)
        received = other.receive()
        assert 0 < len(received) <= 2
        taken += len(received)


@pytest.mark.parametrize("last", [Goodbye(), Abort("because")])
def test_a_close_after_the_last_word_is_quiet(ends: tuple[Endpoint, Endpoint], last: Message) -> None:
    one, other = ends
    one.send(B, last)
    one.flush()
    one.close()
    assert other.receive() == [(A, last)]


def test_a_close_without_a_last_word_is_a_loss(ends: tuple[Endpoint, Endpoint]) -> None:
    one, other = ends
    one.send(B, Data(0, 1, ["kept"]))
    one.flush()
    one.send(B, Goodbye())
    one.close()
    assert other.receive() == [(A, Data(0, 1, ["kept"])), (A, Lost("worker 3 ended without a goodbye"))]


def test_two_threads_exchange_everything_in_order(ends: tuple[Endpoint, Endpoint]) -> None:
    count = 20_000
    results: dict[WorkerId, list[int]] = {}

    def work(mine: Endpoint, peer: WorkerId) -> None:
        got: list[int] = []
        sent = 0
        while len(got) < count or sent < count:
            while sent < count and not mine.congested():
                mine.send(peer, Data(0, sent, [sent]))
                sent += 1
                mine.flush()
            for _, message in mine.receive():
                assert isinstance(message, Data)
                got.extend(message.container)  # type: ignore[arg-type]
            if len(got) < count or sent < count:
                mine.park(20)
        results[mine.worker] = got

    workers = [threading.Thread(target=work, args=(end, peer)) for end, peer in zip(ends, (B, A), strict=True)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert results == {A: list(range(count)), B: list(range(count))}
