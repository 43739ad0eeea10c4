"""Which bin a key is in.

A bin is what moves: all keys whose hashes begin with the same bits, with their state. How many bits is chosen once per
operator; who owns a bin at which time is `routing.routing_table`'s to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NewType

from framework.membership.members import WorkerId
from routing.errors import BinCountInvalid
from routing.hashing import stable_hash

BinId = NewType("BinId", int)
"""A bin's number, from 0 on."""

BINS_MAX = 2**16
"""Each bin costs an entry in every routing table, on every worker."""


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of one operator: `count` of them, a power of two.

    >>> bins = Bins(16)
    >>> bins.of("tea"), bins.of(("tea", 1)), bins.initial_owners([WorkerId(0), WorkerId(4)])[:5]
    (10, 3, [0, 4, 0, 4, 0])
    """

    count: int = 256
    shift: int = field(init=False, repr=False, compare=False)
    """How far a key's hash is shifted to the right to give its bin; a driver that routes a batch does so in place."""

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= BINS_MAX or self.count.bit_count() != 1:
            raise BinCountInvalid(
                f"{self.count!r} bins cannot be: a key's bin is the first bits of its hash, so the number of bins is a "
                f"power of two from 1 to {BINS_MAX}; take some for each worker that the job may grow to, such as 256"
            )
        object.__setattr__(self, "shift", 65 - self.count.bit_length())

    def of(self, key: Any) -> BinId:
        """The bin that `key` is in, everywhere and for ever."""
        return BinId(stable_hash(key) >> self.shift)

    def initial_owners(self, workers: Sequence[WorkerId]) -> list[WorkerId]:
        """The owner of each bin before anything has moved: the workers in turn."""
        return [workers[index % len(workers)] for index in range(self.count)]
