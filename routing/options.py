"""The options that all stateful operators share: how many bins, where their states are, who hears of commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from routing.bins import Bins
from routing.errors import BinOptionsInvalid
from routing.migration.transfer import CHUNK_BYTES_MAX, IN_FLIGHT_BYTES_MAX
from routing.router_operator import ControlReport
from routing.state.memory import MemoryStore
from routing.state.store import StoreMaker


def ignore(report: ControlReport) -> None:
    """What becomes of control commands unless someone wants to know."""


@dataclass(frozen=True, slots=True)
class BinOptions:
    """What an operator takes as its `bins` when the number of them does not say it all.

    >>> BinOptions(bins=16).chunk_bytes_max
    262144
    """

    bins: int = 256
    """How many, a power of two."""
    store: StoreMaker = MemoryStore
    """Makes the store of the states on each worker: `MemoryStore`, or `RocksStore.maker()` for states on disk."""
    report: Callable[[ControlReport], None] = ignore
    """Told on every worker what became of commands: a `Configuration`, a `Refused`, an `Installation`."""
    chunk_bytes_max: int = CHUNK_BYTES_MAX
    """The size of the chunks that states travel in, unless one entry alone exceeds it."""
    in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX
    """The state that a worker may have in flight to others, unless one chunk alone exceeds it."""
    group: str = ""
    """The operators of a group have as many bins, and each bin of all of them has one owner. By default those that have
    the same number of bins are one."""

    def __post_init__(self) -> None:
        Bins(self.bins)
        for name in ("chunk_bytes_max", "in_flight_bytes_max"):
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise BinOptionsInvalid(f"{name}={size!r} cannot be: name a number of bytes, at least 1")
        if not self.group:
            object.__setattr__(self, "group", f"bins{self.bins}")
        if not callable(self.store):
            raise BinOptionsInvalid(
                f"store={self.store!r} makes no store; name `MemoryStore`, what `RocksStore.maker()` returns, or a "
                f"function from `Bins` to a store"
            )
        if not callable(self.report):
            raise BinOptionsInvalid(f"report={self.report!r} cannot be called; name a function of one argument")

    @staticmethod
    def of(bins: int | BinOptions) -> BinOptions:
        """Options from what an operator takes as its `bins`; a number is the number of bins."""
        return bins if isinstance(bins, BinOptions) else BinOptions(bins)
