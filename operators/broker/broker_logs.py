"""The logs of a broker, within one budget: one of what is staged, and one of each output, read at its own speed."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from framework.errors import ConfigError
from operators.broker.budget import BrokerLimits, DiskBudget, segment_bytes
from operators.broker.byte_log import ByteLog, MemoryTier, disk_bytes, free_bytes


class BrokerLogs:
    """Where the bytes of a job's inputs and outputs are, on the worker that has them. Thread-safe."""

    def __init__(self, limits: BrokerLimits) -> None:
        self._directory = Path(limits.directory or tempfile.gettempdir())
        self._budget = budget = _budget(limits, self._directory)
        self._memory = MemoryTier(limits.memory_bytes)
        self._unread: dict[str, ByteLog] = {}
        self._lock = threading.Lock()
        self.staged = ByteLog(
            self._directory,
            segment_bytes(budget.staged_bytes),
            self._memory,
            exceeds=lambda size, occupied: budget.refuses_to_stage(size, staged=occupied),
            overfills=lambda size, free: budget.refuses_to_write(size, free=free, staging=True),
        )

    def unread(self, output: str) -> ByteLog:
        """The log of an output."""
        with self._lock:
            if output not in self._unread:
                budget = self._budget
                self._unread[output] = ByteLog(
                    self._directory,
                    segment_bytes(budget.unread_bytes),
                    self._memory,
                    exceeds=lambda *_: None,
                    overfills=lambda size, free: budget.refuses_to_write(size, free=free, staging=False),
                )
            return self._unread[output]

    @property
    def unread_bytes(self) -> int:
        """How many bytes the logs of outputs have."""
        return sum(self._occupied().values())

    def holds(self) -> str | None:
        """Why nothing that was committed is to be taken in now, if it is not."""
        try:
            free = None if self._memory.has_room else free_bytes(self._directory)
        except OSError as error:
            return f"its temporary directory {self._directory} cannot be used: {error.strerror}"
        return self._budget.holds(self._occupied(), free=free)

    def _occupied(self) -> dict[str, int]:
        with self._lock:
            return {output: log.occupied for output, log in self._unread.items()}


def _budget(limits: BrokerLimits, directory: Path) -> DiskBudget:
    try:
        return DiskBudget.of(limits, free=free_bytes(directory), disk=disk_bytes(directory))
    except OSError as error:
        raise ConfigError(
            f"what is staged and unread cannot lie in {directory}: {error.strerror}; name another with --buffer-dir"
        ) from error
