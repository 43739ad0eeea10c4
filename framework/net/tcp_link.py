"""A link to a worker of another process: frames over one non-blocking TCP connection.

Only the worker that owns the link touches it. Reading is bounded per call, so that no peer can keep a worker from its
work; writing never waits. A connection that ends before the peer's `Goodbye` or `Abort` yields `Lost`.
Large bodies do not pass through it where both ends map the same memory: see `framework.net.shm.channel`.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from framework.errors import ProtocolError
from framework.net.keep_alive import keep_alive
from framework.net.link_socket import LinkSocket, encrypted, is_local, socket_of
from framework.net.link_watch import LinkWatch
from framework.net.shm.channel import SHARED_BYTES_MIN, ShmChannel
from framework.net.shm.segment import UNREAD_BYTES_MAX
from framework.wire import shm_messages
from framework.wire.body import Body
from framework.wire.codec import Buffer
from framework.wire.container import Reservation, allocate
from framework.wire.framing import PREFIX_BYTES, FrameReader, prefix
from framework.wire.messages import Abort, Goodbye, Lost, Message, decode

OUTBOUND_BYTES_MAX = 4 * 1024 * 1024
READ_BYTES_MAX = 1024 * 1024
CHUNK_BYTES = 256 * 1024
JOIN_BYTES_MAX = 16 * 1024
"""Smaller pieces are joined into one; larger ones are handed to the kernel in place (vectored I/O)."""

PIECES_MAX = 512

_log = logging.getLogger("hailer.net")


class TcpLink:
    """One worker's end of a connection that has passed the handshake."""

    __slots__ = (
        "_ending",
        "_finished",
        "_name",
        "_open",
        "_outbound",
        "_outbound_bytes",
        "_reader",
        "_selector",
        "_shm",
        "_socket",
        "_spoken",
        "_tls",
        "_watch",
        "_writing",
    )

    def __init__(self, connection: LinkSocket, selector: selectors.BaseSelector, name: str, watch: LinkWatch) -> None:
        prepare(connection)
        self._socket = connection
        self._tls = encrypted(connection)
        self._selector = selector
        self._name = name
        self._reader = FrameReader(allocate=allocate)
        self._shm = ShmChannel(offers=self._tls is None and is_local(socket_of(connection)))
        self._outbound: deque[Buffer] = deque()
        self._outbound_bytes = 0
        self._open = True
        self._ending = "the connection was closed"
        self._writing = False
        self._finished = False
        self._spoken = False
        self._watch = watch
        watch.add(socket_of(connection))
        selector.register(connection, selectors.EVENT_READ, self)

    def reserve(self, size: int) -> Reservation | None:
        """Memory that the peer maps as well, for a body whose large pieces take `size` bytes, if there is any."""
        return self._shm.reserve(size) if self._open else None

    def send(self, bodies: list[Body], reservation: Reservation | None = None) -> None:
        """Queue bodies for the next `flush`. On a link that has ended they are dropped."""
        if not self._open:
            return
        if len(bodies) > 1:
            reservation = None  # which is for one body: they are copied
        for body in bodies:
            size = sum(map(len, body))
            if size < SHARED_BYTES_MIN:
                self._queue(body, size)
                continue
            for written in self._shm.bodies(body, size, reservation):
                self._queue(written, sum(map(len, written)))

    def flush(self) -> None:
        """Write what is queued, as far as the kernel takes it; the rest goes when the socket is writable again."""
        if self._open:
            for body in self._shm.reports():
                self._queue(body, sum(map(len, body)))
        try:
            while self._outbound:
                self._advance(self._socket.sendmsg(list(islice(self._outbound, PIECES_MAX))))
        except BlockingIOError:
            pass
        except OSError as error:
            self._give_up(f"a write failed: {error.strerror or error}")
        self._watch_writing(bool(self._outbound))

    def read(self) -> list[Message]:
        """A bounded amount of what has arrived."""
        messages: list[Message] = []
        total = 0
        try:
            while self._open and (total < READ_BYTES_MAX or (self._tls is not None and self._tls.pending)):
                room = self._reader.room
                if room:
                    asked, count = len(room), self._socket.recv_into(room)
                    self._take(partial(self._reader.wrote, count), messages)
                else:
                    data = self._socket.recv(CHUNK_BYTES)
                    asked, count = CHUNK_BYTES, len(data)
                    self._take(partial(self._reader.feed, data), messages)
                if not count:
                    self._end(messages, self._ending)
                total += count
                if count < asked:
                    break
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(messages, f"the connection failed: {error.strerror or error}")
        return messages

    def accept(self, leftover: bytes) -> list[Message]:
        """What had arrived together with the end of the handshake."""
        messages: list[Message] = []
        self._take(partial(self._reader.feed, leftover), messages)
        if self._tls is not None and self._tls.pending:  # of which no selector knows
            messages += self.read()
        return messages

    def congested(self) -> bool:
        """Whether the peer is far behind."""
        return self._outbound_bytes > OUTBOUND_BYTES_MAX or self._shm.unread_bytes > UNREAD_BYTES_MAX

    @property
    def unsent(self) -> bool:
        """Whether something still waits to be written."""
        return bool(self._outbound) or (self._open and self._shm.reports_due)

    @property
    def lingering(self) -> bool:
        """Whether closing now could lose what was sent: if the peer still sends, unread data resets the connection."""
        return self._open and self._spoken and not self._finished

    def finish(self) -> None:
        """Half-close: nothing more will be written. `read` discards what arrives from now on."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Release the socket."""
        if self._open:
            self._open = False
            self._outbound.clear()
            self._outbound_bytes = 0
            self._shm.close()
            self._selector.unregister(self._socket)
            self._watch.remove(socket_of(self._socket))
            self._socket.close()

    def _queue(self, body: Body, size: int) -> None:
        self._outbound_bytes += PREFIX_BYTES + size
        self._outbound.extend(_with_small_pieces_joined([prefix(size), *body]))

    def _take(self, bodies: Callable[[], list[Buffer]], messages: list[Message]) -> None:
        try:
            for body in bodies():
                content = body
                if len(body) and body[0] in shm_messages.KINDS:
                    referred = self._shm.receive(shm_messages.decode(body))
                    if referred is None:
                        continue
                    content = referred
                message = decode(content)
                self._finished = self._finished or isinstance(message, Goodbye | Abort)
                messages.append(message)
        except ProtocolError as error:
            _log.warning("the link to %s is cut: it broke the protocol: %s", self._name, error)
            self._end(messages, f"it broke the protocol: {error}")

    def _end(self, messages: list[Message], detail: str) -> None:
        if not self._finished:
            if self._watch.gave_up(socket_of(self._socket)):
                detail = "its machine, or the way there, no longer answers"
            messages.append(Lost(f"{self._name}: {detail}"))
        self.close()

    def _give_up(self, detail: str) -> None:
        """What is queued cannot be written, so nothing more may be: the peer would miss it."""
        self._outbound.clear()
        self._outbound_bytes = 0
        self._ending = detail
        # The reading side finds the end, after what the peer may still have said.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _advance(self, sent: int) -> None:
        """Drop what has been written from the queue."""
        self._spoken = True
        self._outbound_bytes -= sent
        while sent:
            piece = self._outbound.popleft()
            if len(piece) > sent:
                self._outbound.appendleft(memoryview(piece)[sent:])
                return
            sent -= len(piece)

    def _watch_writing(self, writing: bool) -> None:
        if writing != self._writing and self._open:
            self._writing = writing
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
            self._selector.modify(self._socket, events, self)


def _with_small_pieces_joined(pieces: list[Buffer]) -> Iterator[Buffer]:
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) < JOIN_BYTES_MAX:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield piece
    if small:
        yield b"".join(small)


def prepare(connection: LinkSocket) -> None:
    """Set up a connection for small messages that must not wait, and for noticing a machine that is gone."""
    connection = socket_of(connection)
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    keep_alive(connection)
