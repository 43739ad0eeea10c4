"""Changes to counts, added up."""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ChangeBatch(Generic[K]):
    """A multiset with signed counts: what was +1 and -1 is as if it had never been.

    >>> batch = ChangeBatch([("a", 1), ("b", 2)])
    >>> batch.update("a", -1)
    >>> batch.drain()
    [('b', 2)]
    """

    __slots__ = ("_counts",)

    def __init__(self, changes: Iterable[tuple[K, int]] = ()) -> None:
        self._counts: dict[K, int] = {}
        for key, delta in changes:
            self.update(key, delta)

    def update(self, key: K, delta: int) -> None:
        """Add `delta` to the count of `key`."""
        count = self._counts.get(key, 0) + delta
        if count:
            self._counts[key] = count
        else:
            self._counts.pop(key, None)

    def drain(self) -> list[tuple[K, int]]:
        """Return the changes, in the order in which their keys came up, and forget them."""
        changes = list(self._counts.items())
        self._counts.clear()
        return changes

    def items(self) -> ItemsView[K, int]:
        """The changes, without forgetting them."""
        return self._counts.items()

    def count(self, key: K) -> int:
        """The count of `key`, zero if nothing is known of it."""
        return self._counts.get(key, 0)

    def clear(self) -> None:
        """Forget the changes."""
        self._counts.clear()

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"ChangeBatch({list(self._counts.items())!r})"
