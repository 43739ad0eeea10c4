"""Sets of minimal elements.

An `Antichain` holds the least elements of what was inserted. A `MutableAntichain` counts occurrences and knows the
least elements with a positive count; it reports how those change. Integers are totally ordered, so their frontier is
one number that a heap finds; the general form serves product times. `mutable_antichain` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from framework.progress.domain import Domain
from framework.progress.order import Time, linear_key


class PartialOrder(Protocol):
    """What `<=` is defined on, be it for some pairs only."""

    def __le__(self, other: Any, /) -> bool: ...


P = TypeVar("P", bound=PartialOrder)


class Antichain(Generic[P]):
    """The least of the elements inserted; of two that are ordered, only the lower one stays."""

    __slots__ = ("_elements",)

    def __init__(self, elements: Iterable[P] = ()) -> None:
        self._elements: list[P] = []
        for element in elements:
            self.insert(element)

    def insert(self, element: P) -> bool:
        """Add an element; tell whether it is now one of the least."""
        if self.less_equal(element):
            return False
        self._elements = [other for other in self._elements if not element <= other]
        self._elements.append(element)
        return True

    def less_equal(self, element: P) -> bool:
        """Whether some element is at or below this one."""
        return any(other <= element for other in self._elements)

    def less_than(self, element: P) -> bool:
        """Whether some element is strictly below this one."""
        return any(other <= element and other != element for other in self._elements)

    def __iter__(self) -> Iterator[P]:
        return iter(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Antichain):
            return NotImplemented
        return len(self) == len(other) and all(element in other._elements for element in self._elements)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Antichain({self._elements!r})"


FrontierChanges = list[tuple[Time, int]]
"""Times that entered (+1) or left (-1) a frontier."""


class MutableAntichain(Protocol):
    """Counted times and their frontier: the least times with a positive count."""

    def update(self, time: Time, delta: int) -> FrontierChanges:
        """Change a count; return what this changes of the frontier."""

    def frontier(self) -> tuple[Time, ...]:
        """The least times with a positive count."""

    def less_than(self, time: Time) -> bool:
        """Whether some time of the frontier is strictly below `time`."""

    def less_equal(self, time: Time) -> bool:
        """Whether some time of the frontier is at or below `time`."""

    def count(self, time: Time) -> int:
        """The count of `time`."""

    def counts(self) -> list[tuple[Time, int]]:
        """All counts other than zero."""

    def __len__(self) -> int:
        """How many times have a count other than zero."""


def mutable_antichain(domain: Domain) -> MutableAntichain:
    """An empty counted antichain for the times of `domain`."""
    return TotalAntichain() if domain.depth == 0 else PartialAntichain()


class TotalAntichain:
    """A `MutableAntichain` of integers. Hot path: every change of a root scope's progress passes here."""

    __slots__ = ("_counts", "_heap", "_least")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []  # every time with a positive count, and some that had one
        self._least: int | None = None

    def update(self, time: Time, delta: int) -> FrontierChanges:
        assert isinstance(time, int), time
        counts = self._counts
        before = counts.get(time, 0)
        after = before + delta
        if after:
            counts[time] = after
        else:
            counts.pop(time, None)
        if before <= 0 < after:
            return self._appeared(time)
        if after <= 0 < before and time == self._least:
            return self._vanished(time)
        return []

    def _appeared(self, time: int) -> FrontierChanges:
        if len(self._heap) > 2 * len(self._counts) + 16:
            self._heap = [other for other, count in self._counts.items() if count > 0]
            heapify(self._heap)
        else:
            heappush(self._heap, time)
        least = self._least
        if least is None:
            self._least = time
            return [(time, 1)]
        if time < least:
            self._least = time
            return [(least, -1), (time, 1)]
        return []

    def _vanished(self, time: int) -> FrontierChanges:
        heap, counts = self._heap, self._counts
        while heap and counts.get(heap[0], 0) <= 0:
            heappop(heap)
        if not heap:
            self._least = None
            return [(time, -1)]
        self._least = heap[0]
        return [(time, -1), (heap[0], 1)]

    def frontier(self) -> tuple[Time, ...]:
        return () if self._least is None else (self._least,)

    def less_than(self, time: Time) -> bool:
        assert isinstance(time, int), time
        return self._least is not None and self._least < time

    def less_equal(self, time: Time) -> bool:
        assert isinstance(time, int), time
        return self._least is not None and self._least <= time

    def count(self, time: Time) -> int:
        assert isinstance(time, int), time
        return self._counts.get(time, 0)

    def counts(self) -> list[tuple[Time, int]]:
        return list(self._counts.items())

    def __len__(self) -> int:
        return len(self._counts)


class PartialAntichain:
    """A `MutableAntichain` of any times."""

    __slots__ = ("_counts", "_frontier")

    def __init__(self) -> None:
        self._counts: dict[Time, int] = {}
        self._frontier: tuple[Time, ...] = ()

    def update(self, time: Time, delta: int) -> FrontierChanges:
        before = self._counts.get(time, 0)
        after = before + delta
        if after:
            self._counts[time] = after
        else:
            self._counts.pop(time, None)
        appeared = before <= 0 < after and not self.less_equal(time)
        vanished = after <= 0 < before and time in self._frontier
        return self._rebuild() if appeared or vanished else []

    def _rebuild(self) -> FrontierChanges:
        positive = sorted((time for time, count in self._counts.items() if count > 0), key=linear_key)
        old, new = self._frontier, tuple(Antichain(positive))
        self._frontier = new
        return [(time, -1) for time in old if time not in new] + [(time, 1) for time in new if time not in old]

    def frontier(self) -> tuple[Time, ...]:
        return self._frontier

    def less_than(self, time: Time) -> bool:
        return any(other < time for other in self._frontier)  # type: ignore[operator]

    def less_equal(self, time: Time) -> bool:
        return any(other <= time for other in self._frontier)  # type: ignore[operator]

    def count(self, time: Time) -> int:
        return self._counts.get(time, 0)

    def counts(self) -> list[tuple[Time, int]]:
        return list(self._counts.items())

    def __len__(self) -> int:
        return len(self._counts)
