"""Times and the order between them.

A root scope counts epochs: its times are integers. A nested scope adds a coordinate: its times are `Product`s, ordered
coordinate by coordinate. Both are compared with `<=` and `<`, which for products is a *partial* order: of two products
neither may be below the other. `linear_key` extends it to a total one, for heaps and for printing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

EPOCH_MAX = 2**63 - 1
"""The last epoch: times fit into 64 bits on the wire and in columns. A path that would lead beyond it leads nowhere."""


class Product(NamedTuple):
    """A time of a nested scope: the time of the enclosing scope, and a count of iterations.

    >>> Product(1, 5) <= Product(2, 5), Product(1, 5) <= Product(2, 4), Product(2, 4) <= Product(1, 5)
    (True, False, False)
    """

    outer: Time
    inner: int

    # A tuple's own comparisons are lexicographic; ours are those of the product order. Equality and hash stay.
    def __le__(self, other: tuple[object, ...]) -> bool:
        return bool(self[0] <= other[0] and self[1] <= other[1])  # type: ignore[operator]

    def __lt__(self, other: tuple[object, ...]) -> bool:
        return self != other and self <= other

    def __ge__(self, other: tuple[object, ...]) -> bool:
        return bool(self[0] >= other[0] and self[1] >= other[1])  # type: ignore[operator]

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return self != other and self >= other

    def __repr__(self) -> str:
        return f"({self.outer!r}, {self.inner})"


Time: TypeAlias = int | Product
"""When a record is: an epoch, or in an iterative scope the pair of the time outside and the round."""


def linear_key(time: Time) -> tuple[int, ...]:
    """A key whose (lexicographic) order extends the order of times of one scope."""
    if isinstance(time, int):
        return (time,)
    return (*linear_key(time.outer), time.inner)
