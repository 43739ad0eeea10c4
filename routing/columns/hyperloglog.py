"""A HyperLogLog sketch in the state of an entry: about how many different hashes there were, from a run of bytes.

Flajolet et al. (2007). The first bits of a hash name a register, of 8 bits; it keeps the highest rank of the others,
the number of zeros they end with and one more. The harmonic sum of the registers is kept beside them, so that an
estimate takes no look at them, and as an integer, so that it does not depend on the order of hashes: as how much lower
it is than that of registers that are all 0. So a state which is all 0 is a sketch of nothing. To merge sketches is to
take the higher of each pair of registers.
"""

from __future__ import annotations

import math

import numpy as np

from routing.columns.compiled import inlined
from routing.columns.memory import load_u8, load_u64, store, trailing_zeros

BITS_MIN, BITS_MAX = 4, 16
"""There are 2 to the power of so many registers."""

SUM_BITS = 62
"""The sum of registers that are all 0 is 2 to this power."""

STANDARD_ERROR = 1.04
"""That of an estimate, times the root of the number of registers."""


def bits_for(error: float) -> int:
    """How many bits of a hash name a register, for this standard error or less."""
    return max(BITS_MIN, math.ceil(2 * math.log2(STANDARD_ERROR / error)))


@inlined
def hll_add(registers, hash, bits, lowered, used):
    """Note a hash in the registers at an address; how much lower their sum is by now, and how many are not 0."""
    rank_max = SUM_BITS - bits
    rank = trailing_zeros(hash | np.uint64(1 << (rank_max - 1))) + 1
    return _raised(registers + np.int64(hash >> np.uint64(64 - bits)), rank, rank_max, lowered, used)


@inlined
def hll_merge(registers, others, bits, lowered, used):
    """Note all that is in the registers at another address."""
    for first in range(0, 1 << bits, 8):
        if load_u64(others + first) != np.uint64(0):
            for at in range(first, first + 8):
                rank = np.int64(load_u8(others + at))
                lowered, used = _raised(registers + at, rank, SUM_BITS - bits, lowered, used)
    return lowered, used


@inlined
def _raised(at, rank, rank_max, lowered, used):
    """Have a register no lower than a rank."""
    before = np.int64(load_u8(at))
    if rank > before:
        store(at, np.uint8(rank))
        lowered += (1 << (rank_max - before)) - (1 << (rank_max - rank))
        used += 1 if before == 0 else 0
    return lowered, used


@inlined
def hll_estimate(bits, lowered, used):
    """How many different hashes there were, about."""
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
        estimate = count * np.log(count / (count - used))  # many registers are 0: their number tells more
    return np.int64(estimate + 0.5)
