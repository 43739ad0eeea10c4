"""What an operator and the scope around it tell each other about progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from framework.progress.change_batch import ChangeBatch
from framework.progress.graph import Connectivity
from framework.progress.order import Time


@dataclass(slots=True)
class SharedProgress:
    """The mailbox between an operator and its scope; each side drains what the other put in.

    The scope writes `frontiers`. The operator writes the rest, and what it writes during one scheduling is one atomic
    batch: records consumed, capabilities gained and lost, records produced.
    """

    frontiers: list[ChangeBatch[Time]]
    """Per input: times that entered (+1) or left (-1) its frontier."""
    consumed: list[ChangeBatch[Time]]
    """Per input: records taken."""
    internal: list[ChangeBatch[Time]]
    """Per output: capabilities gained and lost."""
    produced: list[ChangeBatch[Time]]
    """Per output: records sent, before they are routed."""

    @staticmethod
    def empty(inputs: int, outputs: int) -> SharedProgress:
        """A mailbox with nothing in it."""
        return SharedProgress(
            frontiers=[ChangeBatch() for _ in range(inputs)],
            consumed=[ChangeBatch() for _ in range(inputs)],
            internal=[ChangeBatch() for _ in range(outputs)],
            produced=[ChangeBatch() for _ in range(outputs)],
        )


class Operator(Protocol):
    """What a scope schedules: an operator with logic of its own, or another scope."""

    name: str
    shared: SharedProgress
    connection: Connectivity
    initial: list[list[tuple[Time, int]]]
    """Per output: the capabilities that it starts with on every worker; common knowledge, so never broadcast."""
    notify: bool
    """Whether changes of its inputs' frontiers are a reason to schedule it."""
    local: bool
    """Whether what it reports happened on this worker alone; a scope reports what happened on all workers."""

    def schedule(self) -> bool:
        """Run once; tell whether work remains that no capability stands for."""

    def shut_down(self) -> None:
        """Release everything: the dataflow ends."""
