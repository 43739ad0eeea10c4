"""The times of a scope, and how they relate to those of the scope around it.

A scope of depth 0 counts epochs; each `Iteration` adds one coordinate. A `Region` groups operators without
changing the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from framework.errors import GraphError
from framework.progress.order import EPOCH_MAX, Product, Time
from framework.progress.summary import Local, Outer, Summary


@dataclass(frozen=True, slots=True)
class Domain:
    """The times and summaries of a scope with `depth` nested coordinates."""

    depth: int = 0

    @property
    def minimum(self) -> Time:
        """The least time."""
        return 0 if self.depth == 0 else Product(Domain(self.depth - 1).minimum, 0)

    @property
    def identity(self) -> Summary:
        """The summary of a path that changes nothing."""
        return 0 if self.depth == 0 else Local(0)

    @property
    def successor(self) -> Summary:
        """The summary of a path that advances the innermost coordinate by one."""
        return 1 if self.depth == 0 else Local(1)

    def check_time(self, time: Time) -> None:
        """Raise unless `time` is one of this domain."""
        depth, rest, fits = 0, time, True
        while isinstance(rest, Product):
            fits = fits and _is_coordinate(rest.inner)
            depth, rest = depth + 1, rest.outer
        if depth != self.depth or not fits or not _is_coordinate(rest):
            raise GraphError(
                f"{time!r} is not a time of this scope; its times look like {self.minimum!r}, "
                f"with integers from 0 to 2**63 - 1"
            )

    def check_summary(self, summary: Summary) -> None:
        """Raise unless `summary` is one of this domain."""
        depth, rest = 0, summary
        while isinstance(rest, Outer):
            depth, rest = depth + 1, rest.outer
        if isinstance(rest, Local):
            fits = depth < self.depth
        else:
            fits = depth == self.depth and 0 <= rest <= EPOCH_MAX
        if not fits:
            raise GraphError(f"{summary!r} is not a summary of this scope; its summaries look like {self.identity!r}")


def _is_coordinate(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= EPOCH_MAX


class Nesting(Protocol):
    """How a scope's times and summaries look from inside and from outside."""

    @property
    def inner(self) -> Domain:
        """The domain of the nested scope."""

    @property
    def outer(self) -> Domain:
        """The domain of the scope around it."""

    def enter(self, time: Time) -> Time:
        """An outer time as seen inside."""

    def leave(self, time: Time) -> Time:
        """An inner time as seen outside."""

    def leave_summary(self, summary: Summary) -> Summary:
        """What a path through the scope does to outer times."""


@dataclass(frozen=True, slots=True)
class Region:
    """A nested scope with the times of the scope around it."""

    outer: Domain

    @property
    def inner(self) -> Domain:
        return self.outer

    def enter(self, time: Time) -> Time:
        return time

    def leave(self, time: Time) -> Time:
        return time

    def leave_summary(self, summary: Summary) -> Summary:
        return summary


@dataclass(frozen=True, slots=True)
class Iteration:
    """A nested scope whose times count iterations within each outer time."""

    outer: Domain

    @property
    def inner(self) -> Domain:
        return Domain(self.outer.depth + 1)

    def enter(self, time: Time) -> Time:
        return Product(time, 0)

    def leave(self, time: Time) -> Time:
        assert isinstance(time, Product), time
        return time.outer

    def leave_summary(self, summary: Summary) -> Summary:
        return summary.outer if isinstance(summary, Outer) else self.outer.identity
