"""Serves a broker to other processes: authenticates them, and gives each connection a thread of its own.

Data of the job passes through here while its worker computes; a thread only waits where its client has to. A client
that disconnects before its attempt is complete takes the attempt with it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from framework.errors import ProtocolError
from framework.net.acceptor import Acceptor
from framework.net.link_socket import LinkSocket
from framework.wire.credentials import Credentials
from framework.wire.purpose import BrokerConnection
from operators.broker.broker import Broker
from operators.broker.connection import Connection
from operators.errors import JobLost, RequestRefused

CLIENTS_MAX = 512
CLOSE_S = 2.0
REQUEST_S = 30.0
"""How long a client may be connected without a request under way."""

_log = logging.getLogger("hailer.broker")


class BrokerServer:
    """Answers the clients of one broker at `address`, from `start` to `close`."""

    def __init__(self, broker: Broker, host: str, credentials: Credentials) -> None:
        self._broker = broker
        self._listener = socket.create_server((host, 0), backlog=128)
        self._acceptor = Acceptor(
            self._listener, credentials, serves=(BrokerConnection,), admit=self._admit, deliver=self._deliver
        )
        self._clients: set[Connection] = set()
        self._answering = 0
        self._changed = threading.Condition()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Begin to answer."""
        self._acceptor.start()

    def close(self) -> None:
        """Stop accepting, answer the requests that are under way, and disconnect all clients."""
        self._acceptor.close()
        with self._changed:
            self._changed.wait_for(lambda: not self._answering, CLOSE_S)
            clients = list(self._clients)
        for client in clients:
            client.shutdown()

    def _admit(self, purpose: BrokerConnection) -> str | None:
        return "too many are connected; try again later" if len(self._clients) >= CLIENTS_MAX else None

    def _deliver(self, purpose: BrokerConnection, connection: LinkSocket) -> None:
        client = Connection(connection, silence_s=REQUEST_S)
        thread = threading.Thread(target=self._serve, args=(client,), name="broker", daemon=True)
        with self._changed:
            self._clients.add(client)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left; the acceptor cuts the client off
            with self._changed:
                self._clients.remove(client)
            raise

    def _serve(self, client: Connection) -> None:
        session = _Session(self._broker, client)
        try:
            while (message := client.receive()) is not None:
                client.expect_within(None)  # rows come and go as slowly as the client's own source and sink
                with self._answers():
                    try:
                        client.send("done", *session.answer(message[0], message[1:]))
                    except RequestRefused as error:
                        session.end()
                        client.send("refused", str(error))
                client.expect_within(REQUEST_S)
        except (JobLost, ProtocolError) as error:
            _log.debug("a client of the broker is gone: %s", error)
        finally:
            session.end()
            with self._changed:
                self._clients.discard(client)
            client.close()

    @contextmanager
    def _answers(self) -> Iterator[None]:
        with self._changed:
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()


class _Session:
    """The requests of one connection."""

    def __init__(self, broker: Broker, client: Connection) -> None:
        self._broker = broker
        self._client = client
        self._staging: tuple[str, str] | None = None
        self._requests: Mapping[str, Callable[..., tuple[Any, ...]]] = {
            "stage": self._stage,
            "commit": self._commit,
            "skip": self._skip,
            "abort": self._abort,
            "latest": self._latest,
            "parts": self._parts,
            "read": self._read,
            "forget": self._forget,
            "finish": self._finish,
        }

    def answer(self, request: str, arguments: list[Any]) -> tuple[Any, ...]:
        """Execute a request."""
        if request not in self._requests:
            raise ProtocolError(f"there is no request {request!r}")
        try:
            return self._requests[request](*arguments)
        except (TypeError, ValueError, KeyError, AssertionError) as error:
            raise ProtocolError(f"the request {request!r} makes no sense: {error!r}") from error

    def end(self) -> None:
        """The client is gone: drop the attempt that it has not completed."""
        if self._staging is not None:
            self._broker.abort(self._staging[0], [self._staging[1]])
            self._staging = None

    def _stage(self, input: str, attempt: str, query: str, batch: int) -> tuple[Any, ...]:
        """Take an attempt: batches until `complete`. One of a batch that was committed before is not to be sent."""
        if not self._broker.open(input, attempt, query, batch):
            return (False,)
        self._staging = input, attempt
        self._client.send("go")
        refusal: RequestRefused | None = None
        while (message := self._client.receive()) is not None:
            match message:
                case ["batch", bytes(), int()] if refusal is not None:
                    continue  # it is told once it has sent all: it does not receive before
                case ["batch", bytes(data), int(rows)]:
                    try:
                        self._broker.stage(input, attempt, data, rows)
                    except RequestRefused as error:
                        refusal = error
                        self.end()
                case ["complete", int(rows)]:
                    if refusal is not None:
                        raise refusal
                    self._broker.complete(input, attempt, rows)
                    self._staging = None
                    return (True,)
                case _:
                    raise ProtocolError(f"{message[0]!r} while an attempt is staged")
        raise JobLost("the client disconnected while it staged an attempt")

    def _commit(
        self, input: str, query: str, batch: int, attempts: list[str], checkpoint: str | None, last: bool
    ) -> tuple[Any, ...]:
        new = self._broker.commit(
            input, query, batch, attempts, checkpoint=checkpoint, last=last, heartbeat=self._heartbeat
        )
        return (new,)

    def _skip(self, input: str, checkpoint: str | None, batch: int) -> tuple[Any, ...]:
        self._broker.skip(input, checkpoint, batch)
        return ()

    def _abort(self, input: str, attempts: list[str]) -> tuple[Any, ...]:
        self._broker.abort(input, attempts)
        return ()

    def _latest(
        self,
        output: str,
        start: int | None,
        rows_max: int | None,
        bytes_max: int | None,
        settle: bool,
        within_s: float,
    ) -> tuple[Any, ...]:
        if settle:
            self._broker.settle(output, self._heartbeat)
        if start is not None and within_s > 0:
            self._broker.wait_for_more(output, start, within_s)
        return self._broker.latest(output, start, rows_max=rows_max, bytes_max=bytes_max)

    def _parts(self, output: str, start: int, end: int) -> tuple[Any, ...]:
        return ([part.pieces for part in self._broker.parts(output, start, end)],)

    def _read(self, output: str, pieces: list[Any]) -> tuple[Any, ...]:
        for epoch, first, end in pieces:
            for extent in self._broker.read(output, epoch, first, end):
                self._client.send("batch", self._broker.fetch(output, extent))
        return ()

    def _forget(self, output: str, end: int) -> tuple[Any, ...]:
        self._broker.forget(output, end)
        return ()

    def _finish(self, inputs: list[str]) -> tuple[Any, ...]:
        self._broker.finish(inputs)
        return ()

    def _heartbeat(self) -> None:
        self._client.send("wait")
