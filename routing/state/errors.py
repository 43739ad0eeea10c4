"""What can go wrong with state on a disk."""

from __future__ import annotations

from framework.errors import UnencodableRecord, UserError, WorldError

REMEDY = (
    "make it of tuples, lists, dicts, str, bytes, int, float, bool, None, dataclasses or named tuples, or register a "
    "codec with `codec.register`"
)
"""What to do about a state that cannot be encoded."""


class MemoryBudgetTooSmall(UserError):
    """A store cannot work within the memory that it is given."""


class UnencodableState(UserError):
    """A state can neither be written down nor leave its worker."""


class StoreLocked(UserError):
    """Another process, or another store of this one, has its state in the same directory."""


class StoreUnusable(WorldError):
    """A directory cannot be read or written."""


class StoreFull(WorldError):
    """There is no room left for state."""


class StoreCorrupt(WorldError):
    """What is on the disk is not what was written."""


def unencodable(what: str, value: object, error: UnencodableRecord, *, verb: str = "encoded") -> str:
    """That a value cannot be encoded, why, and what to do."""
    kind = f"a {type(value).__qualname__}"
    detail = error.detail.removeprefix(kind) if error.detail.startswith(kind) else f": {error.detail}"
    return f"{what}, {kind}, cannot be {verb}{detail}; {REMEDY}"
