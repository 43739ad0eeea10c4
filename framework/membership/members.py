"""Who takes part in a computation.

Worker ids are never reused and need not be dense: everything keyed by a worker is a map. The set of members is a
value with a version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

WorkerId = NewType("WorkerId", int)
"""A worker's number, which no other worker gets, whoever joins and leaves."""

Address: TypeAlias = tuple[str, int]
"""Where a process listens: host and port."""


@dataclass(frozen=True, slots=True)
class Members:
    """The workers of a computation, in ascending order."""

    version: int
    workers: tuple[WorkerId, ...]

    @staticmethod
    def dense(count: int) -> Members:
        """The members `0 … count - 1` that a computation starts with."""
        return Members(0, tuple(WorkerId(index) for index in range(count)))

    def __len__(self) -> int:
        return len(self.workers)

    @property
    def coordinator(self) -> WorkerId:
        """The member that says whose turn it is to join or leave: the lowest. Nobody lower can join."""
        return self.workers[0]

    def joined_by(self, worker: WorkerId) -> Members:
        """The members once `worker` is one."""
        assert worker > self.workers[0], (worker, self)
        assert worker not in self.workers, (worker, self)
        return Members(self.version + 1, tuple(sorted((*self.workers, worker))))

    def left_by(self, worker: WorkerId) -> Members:
        """The members once `worker` is none."""
        assert worker in self.workers, (worker, self)
        return Members(self.version + 1, self.others(worker))

    def others(self, worker: WorkerId) -> tuple[WorkerId, ...]:
        """All members but `worker`."""
        return tuple(other for other in self.workers if other != worker)
