"""Brings up all links of one process: each of its workers to each worker of the other processes, and to each other.

Of two processes the higher one connects, once for each pair of workers. `start_mesh` returns when every link is up, or
raises an error that says which process is missing, which address is taken, or what a peer had against us.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from framework.errors import (
    ConfigError,
    PeerRefused,
    PeersUnreachable,
    PortTaken,
    ProtocolError,
    SecretMismatch,
)
from framework.membership.members import Address, WorkerId
from framework.net.acceptor import HANDSHAKE_TIMEOUT_S, Acceptor
from framework.net.connect import STOP_POLL_S, Patience, connect_link
from framework.net.endpoint import Endpoint, link_threads
from framework.net.link_socket import LinkSocket
from framework.net.link_watch import LinkWatch
from framework.net.secret import SECRET_VARIABLE
from framework.wire.admission import Admission
from framework.wire.credentials import Credentials
from framework.wire.purpose import JoinerLink, WorkerLink

ANNOUNCE_AFTER_S = 2.0
BACKLOG = 128
RETRY_S = 0.02

_log = logging.getLogger("hailer.net")


def start_mesh(
    process: int,
    threads: int,
    addresses: Sequence[Address],
    credentials: Credentials,
    *,
    listener: socket.socket | None = None,
    joinable: bool = False,
    timeout_s: float = 30.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Mesh:
    """All links of `process`, where `addresses` says where each process of the cluster listens.

    A `listener` that is bound already is taken over and closed with the mesh; otherwise the process's own address is
    bound. One process alone opens no socket, unless others are to join it. `should_stop` is asked at least every
    100 ms.
    """
    mesh = Mesh(process, threads, addresses, credentials)
    try:
        if len(addresses) > 1 or joinable:
            mesh._listen(listener if listener is not None else _bind(process, addresses[process]))
            mesh._join(Patience(time.monotonic() + timeout_s, should_stop), timeout_s)
        elif listener is not None:
            listener.close()
    except BaseException:
        mesh.close()
        raise
    return mesh


def join_mesh(
    process: int,
    threads: int,
    address: Address,
    server: tuple[WorkerId, Address],
    credentials: Credentials,
    *,
    listener: socket.socket | None = None,
    timeout_s: float = 30.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Mesh:
    """The links with which `process` begins to join a running cluster: each of its workers to `server`.

    It listens at `address`, for those that join after it. Its endpoints `reach` the others when they know who there is.
    """
    mesh = Mesh(process, threads, [address], credentials)
    try:
        mesh._listen(listener if listener is not None else _bind(process, address))
        for endpoint in mesh.endpoints.values():
            endpoint.connect = partial(mesh._link, endpoint, timeout_s, should_stop)
            endpoint.reach(dict([server]))
    except BaseException:
        mesh.close()
        raise
    return mesh


class Mesh:
    """The links of one process, as one `Endpoint` for each of its workers."""

    def __init__(self, process: int, threads: int, addresses: Sequence[Address], credentials: Credentials) -> None:
        assert threads > 0, threads
        self.process = process
        self._watch = LinkWatch()
        self.endpoints: dict[WorkerId, Endpoint] = {
            worker: Endpoint(worker, self._watch) for worker in _workers_of(process, threads)
        }
        for one, other in combinations(self.endpoints.values(), 2):
            link_threads(one, other)
        self._threads = threads
        self._addresses = list(addresses)
        self._credentials = credentials
        self._acceptor: Acceptor[WorkerLink | JoinerLink] | None = None
        self._changed = threading.Condition()
        self._incoming = self._links(range(process + 1, len(addresses)))
        self._outgoing = self._links(range(process))
        self._failures: dict[int, str] = {}

    def close(self) -> None:
        """Stop accepting and release every link. Call it when the workers have ended. Idempotent."""
        if self._acceptor is not None:
            self._acceptor.close()
        for endpoint in self.endpoints.values():
            endpoint.close()
        self._watch.close()

    def _links(self, processes: range) -> dict[tuple[WorkerId, WorkerId], int]:
        """The links between remote and local workers, as remote and local, with the remote one's process."""
        return {
            (remote, local): process
            for process in processes
            for remote in _workers_of(process, self._threads)
            for local in self.endpoints
        }

    def _listen(self, listener: socket.socket) -> None:
        admission = Admission(len(self._addresses), self._threads, frozenset(self.endpoints), set(self._incoming))
        for worker, endpoint in self.endpoints.items():
            endpoint.on_parted = partial(admission.release, target=worker)
        self._acceptor = Acceptor[WorkerLink | JoinerLink](
            listener,
            self._credentials,
            serves=(WorkerLink, JoinerLink),
            admit=admission.refusal,
            deliver=partial(self._deliver, admission),
        )
        self._acceptor.start()

    def _deliver(self, admission: Admission, link: WorkerLink | JoinerLink, connection: LinkSocket) -> None:
        """Called by the acceptor's thread."""
        admission.record(link)
        self.endpoints[link.target].adopt(link.source, connection)
        with self._changed:
            self._incoming.pop((link.source, link.target), None)
            self._changed.notify_all()

    def _join(self, patience: Patience, timeout_s: float) -> None:
        """Connect to the lower processes and wait for the higher ones."""
        announce_s: float | None = time.monotonic() + ANNOUNCE_AFTER_S
        pause_s = RETRY_S
        while True:
            for process in sorted(set(self._outgoing.values())):
                self._reach(process, patience)
            missing = self._missing()
            if not missing:
                return
            try:
                patience.check()
            except TimeoutError:
                raise self._unreachable(missing, timeout_s) from None
            if announce_s is not None and time.monotonic() >= announce_s:
                announce_s = None
                _log.warning("waiting for %s", ", ".join(map(self._name, missing)))
            with self._changed:
                if self._incoming or self._outgoing:
                    self._changed.wait(pause_s)
            pause_s = min(pause_s * 2, STOP_POLL_S)

    def _reach(self, process: int, patience: Patience) -> None:
        """Connect all links to a lower process, or note why that has to wait."""
        for remote, local in [link for link, owner in self._outgoing.items() if owner == process]:
            link = WorkerLink(len(self._addresses), self._threads, local, remote)
            try:
                self._connect(link, self._addresses[process], self._name(process), patience)
            except TimeoutError as error:
                self._failures.setdefault(process, error.strerror or str(error))
                return
            except OSError as error:
                self._failures[process] = error.strerror or str(error)
                return
            del self._outgoing[remote, local]

    def _link(
        self,
        endpoint: Endpoint,
        timeout_s: float,
        should_stop: Callable[[], bool],
        remote: WorkerId,
        address: Address,
    ) -> None:
        """Connect a joiner to a member; try again for a while."""
        link = JoinerLink(self._threads, endpoint.worker, remote)
        name = f"worker {remote} at {address[0]}:{address[1]}"
        patience = Patience(time.monotonic() + timeout_s, should_stop)
        while True:
            try:
                self._connect(link, address, name, patience)
                return
            except OSError as error:
                try:
                    time.sleep(min(patience.check(), RETRY_S))
                except TimeoutError:
                    raise PeersUnreachable(
                        f"{name} did not answer within {timeout_s:g} s ({error.strerror or error}); does the job run, "
                        f"and does it listen there?"
                    ) from None

    def _connect(self, link: WorkerLink | JoinerLink, address: Address, name: str, patience: Patience) -> None:
        try:
            connection, leftover = connect_link(address, link, self._credentials, patience.within(HANDSHAKE_TIMEOUT_S))
        except PeerRefused as error:
            raise PeerRefused(f"{name} refused this process: {error}") from error
        except SecretMismatch as error:
            raise SecretMismatch(
                f"{name} has another cluster secret than this process; "
                f"give both the same file, with --secret-file or the environment variable {SECRET_VARIABLE}"
            ) from error
        except ProtocolError as error:
            raise PeersUnreachable(f"{name} cannot be talked to: {error}") from error
        self.endpoints[link.source].adopt(link.target, connection, leftover)

    def _missing(self) -> list[int]:
        with self._changed:
            return sorted({*self._incoming.values(), *self._outgoing.values()})

    def _unreachable(self, missing: list[int], timeout_s: float) -> PeersUnreachable:
        peers = ", ".join(
            self._name(process) + (f" ({self._failures[process]})" if process in self._failures else "")
            for process in missing
        )
        text = f"{peers} did not answer within {timeout_s:g} s; were they started, and with the same hosts and ports?"
        if self._acceptor is not None and self._acceptor.rejections:
            text += f" Cut off meanwhile: {'; '.join(self._acceptor.rejections)}"
        return PeersUnreachable(text)

    def _name(self, process: int) -> str:
        host, port = self._addresses[process]
        return f"process {process} at {host}:{port}"


def _workers_of(process: int, threads: int) -> list[WorkerId]:
    return [WorkerId(process * threads + thread) for thread in range(threads)]


def _bind(process: int, address: Address) -> socket.socket:
    """A socket that listens at the process's own address: loopback, unless it says otherwise."""
    host, port = address[0] or "127.0.0.1", address[1]
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"process {process} cannot listen at {host}:{port}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"process {process} should listen at {host}:{port}, but something does already: perhaps another job, "
                f"or this process was started twice; choose other ports with `--base-port`"
            ) from error
        raise ConfigError(
            f"process {process} cannot listen at {host}:{port}: {error.strerror}; its address must be of this machine"
        ) from error
    return listener
