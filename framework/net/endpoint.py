"""One worker's links, of both kinds, and its place to sleep: the `Transport` of real runs.

The worker's own thread does all the reading and writing. Others only push: the acceptor hands in new connections, other
threads put messages into lanes, and both then wake the sleeper.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Mapping

from framework.membership.members import Address, WorkerId
from framework.net.forked import close_when_forked
from framework.net.link_socket import LinkSocket, socket_of
from framework.net.link_watch import LinkWatch
from framework.net.tcp_link import TcpLink
from framework.net.thread_link import LANE_RECORDS_MAX, Lane, ThreadLink
from framework.net.waker import ReadyKeys, Waker
from framework.wire.body import Body
from framework.wire.container import Reservation
from framework.wire.messages import Data, Message, Progress, encode, encode_data
from framework.worker.transport import Traffic

CLOSE_LINGER_S = 0.5
"""How long `close` waits for peers whose `Goodbye` or `Abort` has not come, so that they receive ours."""


class Endpoint:
    """The links of one worker. `wake` and `adopt` may be called from other threads."""

    def __init__(self, worker: WorkerId, watch: LinkWatch | None = None) -> None:
        self.worker = worker
        self.traffic = Traffic()
        self._selector = selectors.DefaultSelector()
        self._waker = Waker(self._selector)
        self._watch = watch or LinkWatch()
        self._threads: dict[WorkerId, ThreadLink] = {}
        self._tcp: dict[WorkerId, TcpLink] = {}
        self._names: dict[TcpLink, WorkerId] = {}
        self._adopted: deque[tuple[WorkerId, LinkSocket, bytes]] = deque()
        self._stash: list[tuple[WorkerId, Message]] = []
        self._broadcast: tuple[Progress, list[Body]] | None = None
        self._closed = False
        self._parting: list[TcpLink] = []
        self._parted: set[WorkerId] = set()
        self._early: dict[WorkerId, list[Body]] = {}
        """What was sent to a peer that has passed its handshake, and whose link the acceptor has yet to hand in."""
        self.connect: Callable[[WorkerId, Address], None] | None = None
        """How a joiner opens a link."""
        self.on_parted: Callable[[WorkerId], None] = lambda peer: None
        """Called with a peer whose link has been ended, and that may connect again."""

    @property
    def peers(self) -> frozenset[WorkerId]:
        """The workers that a link leads to."""
        self._take_adopted()
        return frozenset((*self._threads, *self._tcp))

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory that `peer` maps as well, for a container whose buffers take `size` bytes, if there is any."""
        link = self._tcp.get(peer)
        return None if link is None else link.reserve(size)

    def send(
        self, peer: WorkerId, message: Message, where: str = "this job", reservation: Reservation | None = None
    ) -> None:
        """Queue `message` for `peer`; it leaves with the next `flush`. Never blocks."""
        if peer in self._threads:
            self._threads[peer].send(message)
            return
        if peer not in self._tcp:
            self._take_adopted()
        if peer in self._parted:
            return
        bodies = self._bodies(message, where)
        if isinstance(message, Data):
            self.traffic.data_bytes += _size(bodies)
        else:
            self.traffic.progress_bytes += _size(bodies)
        if peer in self._tcp:
            self._tcp[peer].send(bodies, reservation)
        else:
            self._early.setdefault(peer, []).extend(bodies)

    def receive(self) -> list[tuple[WorkerId, Message]]:
        """What has arrived since the last call, in order per peer, a bounded amount of it. Never blocks."""
        self._take_adopted()
        received, self._stash = self._stash, []
        if self._tcp:
            self._handle(self._waker.poll(), received)
        for peer, link in self._threads.items():
            if link.unread:
                received.extend((peer, message) for message in link.receive())
        return received

    def flush(self) -> None:
        """Hand each peer all that is queued for it, in one write as far as the link takes it. Never blocks."""
        for thread_link in self._threads.values():
            thread_link.flush()
        for tcp_link in self._tcp.values():
            if tcp_link.unsent:
                tcp_link.flush()
        for parting in list(self._parting):
            parting.flush()
            if not parting.unsent:
                self._parting.remove(parting)
                parting.close()

    def congested(self) -> bool:
        """Back-pressure: whether a peer is so far behind that sources should pause."""
        return any(link.congested() for link in self._tcp.values()) or any(
            link.congested() for link in self._threads.values()
        )

    def park(self, timeout_s: float | None) -> None:
        """Sleep until something arrives, a link takes more, `wake` was called, or the time is over."""
        self._take_adopted()
        if self._stash or any(link.unread for link in self._threads.values()):
            return
        for key, events in self._waker.park(timeout_s):
            if events & selectors.EVENT_WRITE:
                key.data.flush()

    def wake(self) -> None:
        """End the current or the next `park`."""
        self._waker.wake()

    def adopt(self, peer: WorkerId, connection: LinkSocket, leftover: bytes = b"") -> None:
        """Make an authenticated connection the link to `peer`. Takes effect in the worker's own thread."""
        close_when_forked(socket_of(connection))
        self._adopted.append((peer, connection, leftover))
        self._waker.wake()
        if self._closed:
            self._drop_adopted()

    def reach(self, peers: Mapping[WorkerId, Address]) -> None:
        """Establish links to peers that have none. For a joiner, which has nothing else to do: blocks, or raises."""
        assert self.connect is not None, "only a joiner reaches out"
        self._take_adopted()
        for peer, address in peers.items():
            if peer not in self._tcp and peer not in self._threads:
                self.connect(peer, address)

    def part_with(self, peer: WorkerId) -> None:
        """End the link to a peer, after what is queued for it. What it still sends is discarded."""
        self._take_adopted()
        self._parted.add(peer)
        self._early.pop(peer, None)
        if peer in self._threads:
            self._threads.pop(peer).flush()
        elif peer in self._tcp:
            link = self._tcp.pop(peer)
            del self._names[link]
            self._parting.append(link)
            self.on_parted(peer)

    def drain(self, timeout_s: float) -> bool:
        """Push out what is queued, for a bounded time; whether all of it went. What arrives meanwhile is kept."""
        deadline = time.monotonic() + timeout_s
        self.flush()
        while any(link.unsent for link in self._tcp.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._handle(self._waker.park(left), self._stash)
        return True

    def close(self) -> None:
        """Release the links. What was not flushed is lost."""
        if self._closed:
            return
        self._closed = True
        for thread_link in self._threads.values():
            thread_link.close()
        self._linger()
        for tcp_link in (*self._tcp.values(), *self._parting):
            tcp_link.close()
        self._drop_adopted()
        self._waker.close()
        self._selector.close()

    def _bodies(self, message: Message, where: str) -> list[Body]:
        if isinstance(message, Data):
            return encode_data(message, where)
        if not isinstance(message, Progress):
            return [[encode(message)]]
        # A batch goes to all peers in turn, and its bytes are the same for each.
        if self._broadcast is None or self._broadcast[0] is not message:
            self._broadcast = (message, [[encode(message)]])
        return self._broadcast[1]

    def _handle(self, events: ReadyKeys, received: list[tuple[WorkerId, Message]]) -> None:
        for key, ready in events:
            link: TcpLink = key.data
            if ready & selectors.EVENT_WRITE:
                link.flush()
            if ready & selectors.EVENT_READ:
                messages = link.read()
                if link in self._names:
                    peer = self._names[link]
                    received.extend((peer, message) for message in messages)

    def _take_adopted(self) -> None:
        while self._adopted:
            peer, connection, leftover = self._adopted.popleft()
            assert peer not in {*self._tcp, *self._threads}, peer
            link = TcpLink(connection, self._selector, f"worker {peer} at {_address(connection)}", self._watch)
            self._tcp[peer] = link
            self._names[link] = peer
            self._parted.discard(peer)
            if peer in self._early:
                link.send(self._early.pop(peer))
                link.flush()
            self._stash.extend((peer, message) for message in link.accept(leftover))

    def _drop_adopted(self) -> None:
        while self._adopted:
            try:
                _, connection, _ = self._adopted.popleft()
            except IndexError:
                return
            connection.close()

    def _linger(self) -> None:
        """Closing a socket that has unread data resets it, and the peer may lose what was sent last: an `Abort`."""
        for link in self._tcp.values():
            if link.lingering:
                link.finish()
        deadline = time.monotonic() + CLOSE_LINGER_S
        while any(link.lingering for link in self._tcp.values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, _ in self._waker.park(left):
                key.data.read()


def link_threads(one: Endpoint, other: Endpoint, *, records_max: int = LANE_RECORDS_MAX) -> None:
    """Link two workers of one process. Called before either of them runs."""
    there = Lane(one._waker, other._waker, records_max=records_max)
    back = Lane(other._waker, one._waker, records_max=records_max)
    one._threads[other.worker] = ThreadLink(one.worker, there, back)
    other._threads[one.worker] = ThreadLink(other.worker, back, there)


def _size(bodies: list[Body]) -> int:
    return sum(len(piece) for body in bodies for piece in body)


def _address(connection: LinkSocket) -> str:
    try:
        host, port, *_ = connection.getpeername()
    except OSError:
        return "an unknown address"
    return f"{host}:{port}"
