"""A worker's links come and go while it runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from framework.membership.members import WorkerId
from framework.net.endpoint import Endpoint
from framework.wire.messages import Goodbye, Lost, Message

ZERO, ONE = WorkerId(0), WorkerId(1)
GIVE_UP_S = 10.0


@contextmanager
def endpoints() -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two that know nothing of each other."""
    zero, one = Endpoint(ZERO), Endpoint(ONE)
    try:
        yield zero, one
    finally:
        zero.close()
        one.close()


def connection() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    return client, accepted


def next_from(endpoint: Endpoint) -> list[tuple[WorkerId, Message]]:
    for _ in range(10):
        received = endpoint.receive()
        if received:
            return received
        endpoint.park(GIVE_UP_S / 10)
    return []


def test_what_is_sent_before_the_acceptor_hands_in_the_link_goes_when_it_does():
    """A peer knows that it is welcome, and others may say so, before this worker has the link."""
    with endpoints() as (zero, one):
        zero.send(ONE, Goodbye())
        zero.flush()
        ours, theirs = connection()
        one.adopt(ZERO, theirs)
        zero.adopt(ONE, ours)
        zero.receive()
        assert next_from(one) == [(ZERO, Goodbye())]


def test_a_peer_that_was_parted_with_may_come_again():
    with endpoints() as (zero, one):
        parted: list[WorkerId] = []
        zero.on_parted = parted.append
        first, other = connection()
        zero.adopt(ONE, first)
        zero.part_with(ONE)
        zero.flush()
        other.close()
        assert parted == [ONE]
        ours, theirs = connection()
        zero.adopt(ONE, ours)
        one.adopt(ZERO, theirs)
        zero.send(ONE, Goodbye())
        zero.flush()
        assert next_from(one) == [(ZERO, Goodbye())]
        one.send(ZERO, Goodbye())
        one.flush()
        assert next_from(zero) == [(ONE, Goodbye())]
        assert not any(isinstance(message, Lost) for _, message in zero.receive())
