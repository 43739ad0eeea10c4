"""A job whose processes, of one worker each, answer what a script says next."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from framework.launch.control_protocol import Supervised
from framework.launch.rpc import RpcClient, RpcLink
from framework.membership.members import WorkerId
from operators.admin.json_codec import to_json
from operators.control.worker_messages import GoalShare, Unmoved
from routing.migration.goals import GoalState, GoalStatus

WAIT_S = 20.0

Script = Mapping[str, list[Any]]
"""By request what it is answered with, in JSON's terms, or how it is refused; the last again and again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a worker says instead of an answer."""

    text: str


def goal(status: GoalStatus, moved: int, bins: int, reason: str = "") -> GoalState:
    return GoalState(0, "it", status, reason, 1.0, 0.01, moved, bins, 10 * moved, 10 * bins)


def share(received: int, of: GoalState | None = None, objection: str | None = None) -> Any:
    return to_json(GoalShare(received, objection, of))


RESCALABLE: dict[str, list[Any]] = {
    "CheckRescalable": [to_json(Unmoved(()))],
    "CheckMayLeave": [None],
    "StartResize": [0],
    "NotComing": [None],
    "Leave": [None],
}
IDLE: dict[str, list[Any]] = {**RESCALABLE, "AskGoal": [share(0)]}


@dataclass(slots=True)
class Scripted:
    """Processes that are there, and what they were asked. Those that are spawned have to be let in by the test."""

    joiner: Script = field(default_factory=lambda: IDLE)
    running: list[Supervised] = field(default_factory=list)
    asked: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """Which process, the request and its arguments."""
    spawned: Callable[[Supervised], None] = lambda _: None
    """What becomes of a process that was spawned."""

    def processes(self) -> Sequence[Supervised]:
        return [process for process in self.running if not process.ended.is_set()]

    def coming(self, count: int) -> Sequence[WorkerId]:
        return [WorkerId(len(self.running) + index) for index in range(count)]

    def spawn(self) -> Supervised:
        process = self.add(self.joiner, member=False)
        self.spawned(process)
        return process

    def add(self, script: Script, *, member: bool = True) -> Supervised:
        ours, theirs = socket.socketpair()
        link, number = RpcLink(theirs), len(self.running)
        left = {request: list(answers) for request, answers in script.items()}

        def answer() -> None:
            while (message := link.receive()) is not None:
                request = message["request"]
                self.asked.append((number, request, message["with"]))
                answers = left[request]
                said = answers.pop(0) if len(answers) > 1 else answers[0]
                said = {"error": said.text} if isinstance(said, Refusal) else {"answer": said}
                with suppress(OSError):  # who asked has closed the link
                    link.send({"id": message["id"], **said})
            link.close()

        threading.Thread(target=answer, daemon=True).start()
        process = Supervised(number, 4242 + number, [WorkerId(number)], RpcClient(RpcLink(ours)))
        process.joined.update(process.workers if member else [])
        self.running.append(process)
        return process

    def was_asked(self, request: str) -> list[int]:
        """The processes, in order."""
        return [number for number, each, _ in self.asked if each == request]


@contextmanager
def scripted(*scripts: Script, joiner: Script = IDLE) -> Iterator[Scripted]:
    """A job of as many processes."""
    job = Scripted(joiner)
    for script in scripts:
        job.add(script)
    try:
        yield job
    finally:
        for process in job.running:
            process.ended.set()
            process.rpc.close()


def joins(process: Supervised) -> None:
    """It is a member at once."""
    process.joined.update(process.workers)


def ends(process: Supervised) -> None:
    """It ends before it is a member."""
    process.failure = "it was killed"
    process.ended.set()
