"""What connects a process that a launcher has started to its supervisor, while its workers run."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from framework.launch.control_protocol import ControlPlane
from framework.launch.heartbeat import HeartbeatThread
from framework.launch.rpc import RpcLink, RpcServer
from framework.launch.spawned import Spawned
from framework.launch.status_pipe import report_join
from framework.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class SupervisorLink:
    """Of this process."""

    spawned: Spawned
    control_plane: ControlPlane | None
    heartbeat: HeartbeatThread

    @contextmanager
    def supervised(self, workers: Sequence[Worker], *, joins: bool) -> Iterator[None]:
        """Report how the workers join, if they do, and have them answer requests while the block runs."""
        if joins:
            for worker in workers:
                report_join(self.spawned.status_fd, worker)
        if self.control_plane is None:
            yield
            return
        server = RpcServer(RpcLink(socket.socket(fileno=self.spawned.rpc_fd)), workers, self.control_plane.answer)
        server.start()
        try:
            yield
        finally:
            server.finish()
