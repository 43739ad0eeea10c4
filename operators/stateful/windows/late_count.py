"""How many of the records that came to windows were late, on each worker: for who watches a job, and for its log."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from framework.dataflow.scope import Outlet
from framework.dataflow.worker_context import WorkerContext

WARNED_FROM = 100
"""How many records have come before the log says that most are late."""


class LateCount:
    """Counts for one operator on one worker. Asked in the worker's own thread."""

    def __init__(self, worker: WorkerContext, operator: str) -> None:
        self.records = 0
        self.late = 0
        self._worker = worker
        self._operator = operator
        self._warned = False

    def add(self, *, records: int, late: int) -> None:
        """Take note of some records; the log is told once if most of all are late."""
        self.records += records
        self.late += late
        if self.records >= WARNED_FROM and 2 * self.late > self.records and not self._warned:
            self._warned = True
            self._worker.log(
                f"operator {self._operator!r}: {self.late:,} of {self.records:,} records came too late for their "
                f"windows; see that the clock begins where their event times do, and has the same unit"
            )


_counts: WeakKeyDictionary[WorkerContext, WeakValueDictionary[str, LateCount]] = WeakKeyDictionary()
"""By the paths of operators. Each count is its operator's, and goes with it."""


def list_count(outlet: Outlet, count: LateCount) -> None:
    """Let `count` be found as that of the operator whose outlet this is."""
    path = outlet.scope.path_of(outlet.source.node)
    _counts.setdefault(outlet.scope.worker, WeakValueDictionary())[path] = count


def late_counts(worker: WorkerContext) -> dict[str, LateCount]:
    """The counts of a worker's operators on windows, by their paths."""
    return dict(_counts.get(worker, ()))
