"""Which links a process lets in: those that its cluster needs, and those of workers that join later, once each.

Asked by `ServerHandshake` after the client has proven the secret. A refusal is a sentence that reaches the client's
user, who started a process that does not belong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from framework.wire.handshake import Hello


@dataclass(slots=True)
class Admission:
    """The workers of a process, and the links that are still expected, as pairs of source and target."""

    processes: int
    threads: int
    generation: int
    workers: frozenset[WorkerId]
    expected: set[tuple[WorkerId, WorkerId]]
    linked: set[tuple[WorkerId, WorkerId]] = field(default_factory=set)

    def admit(self, hello: Hello) -> str | None:
        """Let the link in and return None, or say why not."""
        link = (hello.source, hello.target)
        if hello.joins and hello.threads != self.threads:
            return f"it has {hello.threads} threads, but the processes of this cluster have {self.threads}"
        if not hello.joins and (hello.processes, hello.threads) != (self.processes, self.threads):
            return (
                f"it was started for {_shape(hello.processes, hello.threads)}, "
                f"but this cluster has {_shape(self.processes, self.threads)}"
            )
        if hello.generation != self.generation:
            return f"it is of generation {hello.generation}, but this cluster is at {self.generation}"
        if link in self.linked:
            return f"worker {hello.source} has a link to worker {hello.target} already; is a process started twice?"
        if hello.target not in self.workers:
            return f"worker {hello.target} is not here"
        if hello.source in self.workers:
            return f"worker {hello.source} is here"
        if not hello.joins and link not in self.expected:
            return f"worker {hello.target} expects no link from worker {hello.source}"
        self.expected.discard(link)
        self.linked.add(link)
        return None

    def release(self, source: WorkerId, target: WorkerId) -> None:
        """The link is no more: `source` may come again."""
        self.linked.discard((source, target))


def _shape(processes: int, threads: int) -> str:
    return f"{processes} process{'es' * (processes != 1)} of {threads} thread{'s' * (threads != 1)}"
