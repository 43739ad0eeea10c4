"""A HyperLogLog sketch in the state of an entry: an estimate of the number of distinct hashes, in a run of bytes.

Flajolet et al. (2007). The first bits of a hash select a register of 8 bits; it keeps the highest rank of the others,
the number of their trailing zeros plus one. The harmonic sum of the registers is maintained beside them, so that an
estimate does not read them: as an integer, so that it does not depend on the order of hashes, and as how much it is
`lowered` below that of registers that are all 0, so that a zeroed state is an empty sketch. Sketches are merged by the
maximum of each pair of registers.
"""

from __future__ import annotations

import math

import numpy as np

from framework.errors import ProtocolError
from routing.columns.compiled import inlined
from routing.columns.memory import load_u8, load_u64, store, trailing_zeros

BITS_MIN, BITS_MAX = 4, 16
"""The bits of a hash that select a register."""

SUM_BITS = 62
"""The harmonic sum of registers that are all 0 is 2 to this power, in the fixed-point form that is kept."""

STANDARD_ERROR = 1.04
"""The relative standard error of an estimate, times the square root of the number of registers."""


def bits_for(error: float) -> int:
    """The bits that select a register, for this relative standard error or less."""
    return max(BITS_MIN, math.ceil(2 * math.log2(STANDARD_ERROR / error)))


@inlined
def hll_add(registers, hash, bits, lowered, used):
    """Add a hash to the registers at an address; return how much their sum is lowered, and how many are not 0."""
    rank_max = SUM_BITS - bits
    rank = trailing_zeros(hash | np.uint64(1 << (rank_max - 1))) + 1
    return _raise_register(registers + np.int64(hash >> np.uint64(64 - bits)), rank, rank_max, lowered, used)


@inlined
def hll_merge(registers, others, bits, lowered, used):
    """Merge the registers at another address, which may be a peer's; return as `hll_add` does."""
    rank_max = SUM_BITS - bits
    for first in range(0, 1 << bits, 8):
        if load_u64(others + first) != np.uint64(0):
            for at in range(first, first + 8):
                rank = np.int64(load_u8(others + at))
                if rank > rank_max:
                    raise ProtocolError("a HyperLogLog sketch with a rank that no hash has")
                lowered, used = _raise_register(registers + at, rank, rank_max, lowered, used)
    return lowered, used


@inlined
def _raise_register(at, rank, rank_max, lowered, used):
    """Raise a register to a rank, if it is lower."""
    before = np.int64(load_u8(at))
    if rank > before:
        store(at, np.uint8(rank))
        lowered += (1 << (rank_max - before)) - (1 << (rank_max - rank))
        used += 1 if before == 0 else 0
    return lowered, used


@inlined
def hll_estimate(bits, lowered, used):
    """The estimated number of distinct hashes."""
    count = 1 << bits
    total = ((1 << SUM_BITS) - lowered) / (1 << (SUM_BITS - bits))
    if count <= 16:
        bias = 0.673
    elif count <= 32:
        bias = 0.697
    elif count <= 64:
        bias = 0.709
    else:
        bias = 0.7213 / (1.0 + 1.079 / count)
    estimate = bias * count * count / total
    if estimate <= 2.5 * count and used < count:
        estimate = count * np.log(count / (count - used))  # linear counting, while many registers are 0
    return np.int64(estimate + 0.5)
