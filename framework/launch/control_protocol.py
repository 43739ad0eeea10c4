"""The seam between the supervisor of a job's processes and a control plane above the framework."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from framework.launch.liveness import Liveness
from framework.launch.rpc import RpcClient
from framework.launch.signals import Stop
from framework.membership.members import WorkerId
from framework.worker.worker import Worker


@dataclass(slots=True, eq=False)
class Supervised:
    """One process of a job, as its supervisor sees it."""

    process: int
    pid: int
    workers: Sequence[WorkerId]
    rpc: RpcClient
    phases: list[tuple[WorkerId, str, float]] = field(default_factory=list)
    """The phases of its join that a process which joins has come through: worker, phase, and seconds taken."""
    liveness: Liveness = field(default_factory=Liveness)
    """Whether it is alive, and its workers step."""
    joined: set[WorkerId] = field(default_factory=set)
    """Its workers that are members of the job."""
    ended: threading.Event = field(default_factory=threading.Event)
    done: Any = None
    """What it says it has done (`ControlPlane.done`), once it has."""
    failure: str | None = None
    """Why it failed, if it did."""

    @property
    def member(self) -> bool:
        """Whether all of its workers take part: before that they answer no requests."""
        return self.joined.issuperset(self.workers)


class Processes(Protocol):
    """The processes of a job; any thread may call."""

    def processes(self) -> Sequence[Supervised]:
        """Those that take part or are about to, in the order of their numbers, without those that have left."""

    def coming(self, count: int) -> Sequence[WorkerId]:
        """The workers that the next `count` processes will have."""

    def spawn(self) -> Supervised:
        """Start another one, which joins; its number is higher than any before it. May raise `JobEnds`."""


class ControlPlane(Protocol):
    """Fills the seam: `answer` and `done` in every process of the job, the rest in the one that supervises them."""

    def answer(self, worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
        """What `worker` answers to a request, in JSON's terms; called in its thread, between its steps."""

    def done(self) -> Any:
        """What this process's workers have done, in JSON's terms; called when they have come to their end."""

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        """Where the standard output and error go of a process that has these workers, and may be alone.

        They are descriptors that are closed once it has started, or None for the supervisor's own.
        """

    def controlling(self, processes: Processes, stop: Stop) -> AbstractContextManager[None]:
        """Let a job's processes be controlled while the block runs, which raises what the job ends with."""
