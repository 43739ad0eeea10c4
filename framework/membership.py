"""Who takes part in a computation.

Worker ids are never reused and need not be dense: everything keyed by a worker is a map. The set of members is a
value with a version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

WorkerId = NewType("WorkerId", int)


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

    def others(self, worker: WorkerId) -> tuple[WorkerId, ...]:
        """All members but `worker`."""
        return tuple(other for other in self.workers if other != worker)
