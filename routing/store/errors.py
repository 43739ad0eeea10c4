"""What can go wrong with state on a disk."""

from __future__ import annotations

from framework.errors import UserError, WorldError


class MemoryBudgetTooSmall(UserError):
    """A store cannot work within so little memory."""


class UnencodableState(UserError):
    """A state cannot be written down."""


class StoreLocked(UserError):
    """Another process, or another store of this one, has its state in the same directory."""


class StoreUnusable(WorldError):
    """A directory cannot be read or written."""


class StoreFull(WorldError):
    """There is no room left for state."""


class StoreCorrupt(WorldError):
    """What is on the disk is not what was written."""
