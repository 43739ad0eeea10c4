"""Waking a sleeper, before, during and after its sleep."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from framework.net.waker import Waker


@pytest.fixture
def waker() -> Iterator[Waker]:
    selector = selectors.DefaultSelector()
    waker = Waker(selector)
    yield waker
    waker.close()
    selector.close()


def parked_s(waker: Waker, timeout_s: float) -> float:
    begin = time.monotonic()
    assert waker.park(timeout_s) == []
    return time.monotonic() - begin


def test_a_wake_before_the_sleep_ends_it_once(waker: Waker) -> None:
    waker.wake()
    waker.wake()
    assert parked_s(waker, 30) < 5
    assert parked_s(waker, 0.01) >= 0.009


def test_a_wake_during_the_sleep_ends_it(waker: Waker) -> None:
    sleeper = threading.Thread(target=waker.park, args=(30,))
    begin = time.monotonic()
    sleeper.start()
    while not waker._asleep:
        assert time.monotonic() - begin < 5
    waker.wake()
    sleeper.join(5)
    assert not sleeper.is_alive()
    assert time.monotonic() - begin < 5


def test_a_poll_does_not_use_up_a_wake(waker: Waker) -> None:
    waker.wake()
    assert waker.poll() == []
    assert parked_s(waker, 30) < 5


def test_no_wake_of_many_is_lost(waker: Waker) -> None:
    """Each round trip needs one wake to arrive; a lost one would sleep for its 30 seconds."""
    rounds, done = 3_000, threading.Semaphore(0)
    seen = 0

    def wake() -> None:
        nonlocal seen
        for number in range(1, rounds + 1):
            seen = number
            waker.wake()
            assert done.acquire(timeout=20)

    other = threading.Thread(target=wake)
    begin = time.monotonic()
    other.start()
    for number in range(1, rounds + 1):
        while seen < number:
            waker.park(30)
        done.release()
    other.join(5)
    assert not other.is_alive()
    assert time.monotonic() - begin < 25


def test_events_of_others_come_through(waker: Waker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waker._selector.register(ours, selectors.EVENT_READ, "ours")
        theirs.send(b"x")
        assert [key.data for key, _ in waker.park(5)] == ["ours"]
        waker._selector.unregister(ours)


def test_a_wake_after_the_close_does_nothing() -> None:
    selector = selectors.DefaultSelector()
    waker = Waker(selector)
    waker.close()
    waker.wake()
    assert list(selector.get_map()) == []
    selector.close()
