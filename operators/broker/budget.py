"""How much a served job may keep outside of its state: what is staged, what is unread, and what the disk must keep.

Staged bytes have a limit that is never exceeded: stagings are refused. Unread outputs have one from which on nothing
more is taken in; what is in the job by then still comes out. Some of both is in memory, the rest on disk. Staging
leaves more of the disk free than outputs do: when it is nearly full, what is in the job can still come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.errors import ConfigError

MEMORY_BYTES = 256 << 20
"""Young bytes are mostly dropped soon; on their way through files they cost a copy more each way."""

STAGED_BYTES, UNREAD_BYTES = 16 << 30, 64 << 30
STAGED_PART, UNREAD_PART = 1 / 4, 1 / 2
"""Of what is free when the job begins: at most so much may be staged, and unread, beyond half of what is in memory."""

RESERVE_BYTES, RESERVE_PART = 1 << 30, 1 / 20
"""What is left free, and as a part of the whole disk: the smaller of both."""

SEGMENT_BYTES = 64 << 20
SEGMENTS_MIN = 16
"""Into how many segments a budget is cut at least, since a segment is freed as a whole."""

ATTEMPT_S = 3600.0


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What a served job may keep outside of its state, and where. What is None follows from the disk's size.

    `BrokerLimits(directory="/data/tmp", unread_bytes=200 << 30)`
    """

    directory: str | None = None
    """Where what is staged and unread lies; the system's temporary directory, unless named."""
    staged_bytes: int | None = None
    """How much may be staged."""
    unread_bytes: int | None = None
    """From how much that nobody has read on nothing more is taken in."""
    reserve_bytes: int | None = None
    """How much of the disk is left free."""
    memory_bytes: int = MEMORY_BYTES
    """How much of what is staged and unread is in memory rather than on disk."""
    attempt_s: float = ATTEMPT_S
    """How long what is staged waits for its commit, if nothing more of its batch comes."""

    def __post_init__(self) -> None:
        for name in ("staged_bytes", "unread_bytes", "attempt_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"{name} is {value!r}; it has to be more than 0")
        for name in ("reserve_bytes", "memory_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ConfigError(f"{name} is {value!r}; it cannot be less than 0")


@dataclass(frozen=True, slots=True)
class DiskBudget:
    """The limits in bytes, for one disk."""

    staged_bytes: int
    unread_bytes: int
    reserve_bytes: int

    @staticmethod
    def of(limits: BrokerLimits, *, free: int, disk: int) -> DiskBudget:
        """What `limits` come to on a disk of `disk` bytes of which `free` are."""
        reserve = limits.reserve_bytes
        if reserve is None:
            reserve = min(RESERVE_BYTES, int(disk * RESERVE_PART))
        room, memory = max(free - 2 * reserve, 0), limits.memory_bytes // 2
        return DiskBudget(
            staged_bytes=limits.staged_bytes or max(memory + min(STAGED_BYTES, int(room * STAGED_PART)), 1),
            unread_bytes=limits.unread_bytes or max(memory + min(UNREAD_BYTES, int(room * UNREAD_PART)), 1),
            reserve_bytes=reserve,
        )

    def refuses_to_stage(self, size: int, *, staged: int) -> str | None:
        """Why `size` bytes more are not staged, if they are not."""
        if staged + size <= self.staged_bytes:
            return None
        return (
            f"{staged:,} bytes are staged and wait for their commits, and the job stages {self.staged_bytes:,} at "
            f"most; try again later, with smaller batches, or with a larger --staged-bytes"
        )

    def refuses_to_write(self, size: int, *, free: int, staging: bool) -> str | None:
        """Why `size` bytes are not written to the disk, if they are not."""
        if free - size >= self.reserve_bytes * (1 + staging):
            return None
        return f"the disk of the job's first worker is full ({free:,} bytes are free)"

    def holds(self, unread: Mapping[str, int], *, free: int | None) -> str | None:
        """Why nothing that was committed is taken in now, if it is not: from what is unread of each output, and what is
        free on the disk, None if there is room in memory."""
        if (total := sum(unread.values())) >= self.unread_bytes:
            most = max(unread, key=lambda output: unread[output])
            return (
                f"{total:,} bytes of its outputs are unread, {unread[most]:,} of them of {most!r}, and the limit is "
                f"{self.unread_bytes:,}"
            )
        return None if free is None else self.refuses_to_write(1, free=free, staging=False)


def segment_bytes(budget_bytes: int) -> int:
    """How large a segment of a log is that has this budget."""
    return max(1, min(SEGMENT_BYTES, budget_bytes // SEGMENTS_MIN))
