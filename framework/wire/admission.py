"""Which links a process lets in: those that its cluster needs, and those of workers that join later, once each.

Asked by `ServerHandshake` after the client has proven the secret. A refusal is a sentence that reaches the client's
user, who started a process that does not belong. A link counts once its client could be told: until then it may try
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from framework.wire.purpose import JoinerLink, WorkerLink


@dataclass(slots=True)
class Admission:
    """The workers of a process, and the links that are still expected, as pairs of source and target."""

    processes: int
    threads: int
    workers: frozenset[WorkerId]
    expected: set[tuple[WorkerId, WorkerId]]
    linked: set[tuple[WorkerId, WorkerId]] = field(default_factory=set)

    def refusal(self, purpose: WorkerLink | JoinerLink) -> str | None:
        """Why the link is not let in, if it is not."""
        match purpose:
            case JoinerLink(threads, source, target):
                if threads != self.threads:
                    return f"it has {threads} threads, but the processes of this cluster have {self.threads}"
            case WorkerLink(processes, threads, source, target):
                if (processes, threads) != (self.processes, self.threads):
                    return (
                        f"it was started for {_shape(processes, threads)}, "
                        f"but this cluster has {_shape(self.processes, self.threads)}"
                    )
        link = (source, target)
        if link in self.linked:
            return f"worker {source} has a link to worker {target} already; is a process started twice?"
        if target not in self.workers:
            return f"worker {target} is not here"
        if source in self.workers:
            return f"worker {source} is here"
        if isinstance(purpose, WorkerLink) and link not in self.expected:
            return f"worker {target} expects no link from worker {source}"
        return None

    def record(self, purpose: WorkerLink | JoinerLink) -> None:
        """The client was told that its link is let in."""
        link = (purpose.source, purpose.target)
        self.expected.discard(link)
        self.linked.add(link)

    def release(self, source: WorkerId, target: WorkerId) -> None:
        """The link has ended: `source` may connect again."""
        self.linked.discard((source, target))


def _shape(processes: int, threads: int) -> str:
    return f"{processes} process{'es' * (processes != 1)} of {threads} thread{'s' * (threads != 1)}"
