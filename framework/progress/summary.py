"""Path summaries: what must happen to a time on its way along a path.

In a root scope a summary is an integer, the number of epochs that the path adds. In a nested scope a path is either
`Local`, it stays within the scope and adds iterations, or `Outer`, it advances the enclosing scope's time and starts
the iterations at zero. Two summaries are ordered if their results are, for every time. Hence a `Local` and an `Outer`
are never ordered: (0, 5) becomes (0, 5) by `Local(0)` and (1, 0) by `Outer(1, 0)`, and neither of the two is below the
other in the product order. Discarding the `Outer` one, as a lexicographic order would allow, would lose (1, 0). It is
also why a time need not be below what an `Outer` makes of it; what tracking needs is that no cycle leads back to it,
and that holds because the enclosing time advances.

A summary may answer "never" (`None`): the time would lie beyond `EPOCH_MAX`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from framework.errors import GraphError
from framework.progress.order import EPOCH_MAX, Product, Time


@dataclass(frozen=True, slots=True)
class Local:
    """A path within a nested scope that adds `step` iterations."""

    step: int

    def __post_init__(self) -> None:
        _check_step(self.step)

    def __le__(self, other: Summary) -> bool:
        return isinstance(other, Local) and self.step <= other.step


@dataclass(frozen=True, slots=True)
class Outer:
    """A path that advances the enclosing scope's time by `outer` and then counts iterations from `step`."""

    outer: Summary
    step: int

    def __post_init__(self) -> None:
        _check_step(self.step)
        if not advances(self.outer):
            raise GraphError(
                f"{self!r} forgets the iteration without advancing the enclosing time, so time would run backwards; "
                f"give it an outer summary that advances, such as Outer(1, 0), or use Local"
            )

    def __le__(self, other: Summary) -> bool:
        return isinstance(other, Outer) and self.outer <= other.outer and self.step <= other.step  # type: ignore[operator]


Summary: TypeAlias = int | Local | Outer


def results_in(summary: Summary, time: Time) -> Time | None:
    """The earliest time at the end of a path that `time` enters, or None for never."""
    if isinstance(summary, int):
        assert isinstance(time, int), (summary, time)
        advanced = time + summary
        return advanced if advanced <= EPOCH_MAX else None
    assert isinstance(time, Product), (summary, time)
    if isinstance(summary, Local):
        inner = time.inner + summary.step
        return Product(time.outer, inner) if inner <= EPOCH_MAX else None
    outer = results_in(summary.outer, time.outer)
    return None if outer is None else Product(outer, summary.step)


def followed_by(first: Summary, second: Summary) -> Summary | None:
    """The summary of one path after another, or None if no time passes both."""
    if isinstance(first, int):
        assert isinstance(second, int), (first, second)
        return first + second if first + second <= EPOCH_MAX else None
    assert not isinstance(second, int), (first, second)
    if isinstance(second, Outer):
        if isinstance(first, Local):
            return second
        outer = followed_by(first.outer, second.outer)
        return None if outer is None else Outer(outer, second.step)
    step = first.step + second.step
    if step > EPOCH_MAX:
        return None
    return Local(step) if isinstance(first, Local) else Outer(first.outer, step)


def advances(summary: Summary) -> bool:
    """Whether every time that passes the path gets strictly later."""
    if isinstance(summary, int):
        return summary > 0
    return isinstance(summary, Outer) or summary.step > 0


def _check_step(step: int) -> None:
    if not 0 <= step <= EPOCH_MAX:
        raise GraphError(f"a summary adds between 0 and {EPOCH_MAX} iterations, not {step}")
