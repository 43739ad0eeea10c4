"""What the bins of an operator weigh: the keys and bytes in them, and how many records come to them.

Keys and bytes are the state backend's to count. Records are sampled where S applies them, a few of each thousand, so
that a hot path pays for a hash now and then; a bin that moves takes its rate along. `Weighed` is what one worker says
of its bins; weights add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

from framework.membership.members import WorkerId
from framework.wire import codec
from routing.bins import BinId

WINDOW_S = 16.0
"""How long a record counts in full; after that, half."""


@dataclass(frozen=True, slots=True)
class BinWeight:
    """What a bin weighs."""

    keys: int = 0
    state_bytes: int = 0
    records_per_s: float = 0.0

    def __add__(self, other: BinWeight) -> BinWeight:
        return BinWeight(
            self.keys + other.keys, self.state_bytes + other.state_bytes, self.records_per_s + other.records_per_s
        )


@dataclass(frozen=True, slots=True)
class Weighed:
    """What `sender` has to say of the bins of an operator: (bin, keys, bytes, records per second) for some of them."""

    target: WorkerId
    sender: WorkerId
    weights: tuple[tuple[BinId, int, int, float], ...]


codec.register(Weighed, "routing.Weighed")


@dataclass(frozen=True, slots=True)
class WeighedBins:
    """What the workers had to say of the bins at a time."""

    time: int
    weights: Mapping[BinId, BinWeight]


def weigh(keys: Mapping[BinId, int], entry_bytes: int, loads: Mapping[BinId, float]) -> dict[BinId, BinWeight]:
    """Weights from what is known of bins: their numbers of keys, the size of an entry, their records per second."""
    return {
        bin_id: BinWeight(keys.get(bin_id, 0), entry_bytes * keys.get(bin_id, 0), loads.get(bin_id, 0.0))
        for bin_id in sorted(keys.keys() | loads.keys())
    }


def add_up(weighed: Iterable[Mapping[BinId, BinWeight]]) -> dict[BinId, BinWeight]:
    """The weights of bins of which several workers, or operators, have said something."""
    total: dict[BinId, BinWeight] = {}
    for weights in weighed:
        for bin_id, weight in weights.items():
            known = total.get(bin_id)
            total[bin_id] = weight if known is None else known + weight
    return total


def costs(weights: Mapping[BinId, BinWeight]) -> dict[BinId, float]:
    """What each bin costs its worker, as a number to balance by: mostly its share of the records, else of the keys.

    >>> costs({BinId(0): BinWeight(keys=1), BinId(1): BinWeight(keys=3)})
    {0: 250000.0, 1: 750000.0}
    """
    keys = sum(weight.keys for weight in weights.values())
    records = sum(weight.records_per_s for weight in weights.values())
    by_records = (RECORDS_SHARE if keys else 1.0) / records if records else 0.0
    by_keys = (1.0 - RECORDS_SHARE if records else 1.0) / keys if keys else 0.0
    return {
        bin_id: float(round(1e6 * (by_records * weight.records_per_s + by_keys * weight.keys)))
        for bin_id, weight in weights.items()
    }


RECORDS_SHARE = 0.9
"""How much of a bin's cost is its records' part, where keys are known, too: those take memory, and moving them time."""

Sample = Callable[[Any], Sequence[BinId]]
"""The bins of a few records of a container."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the records of a stream are sampled."""

    sample: Sample
    every: int
    """How many records pass for each sample."""


class LoadMeter:
    """How many records come to each bin of an operator on one worker, from a sample."""

    def __init__(self, streams: Sequence[Sampling], clock: Callable[[], float]) -> None:
        self._streams = streams
        self._clock = clock
        self._since_s = clock()
        self._passed = [0] * len(streams)
        self._counts: dict[BinId, float] = {}
        self._samples = 0.0

    def note(self, port: int, container: Any) -> None:
        """Take a container that was applied. Hot path: most are only counted."""
        passed = self._passed[port] + len(container)
        stream = self._streams[port]
        if passed < stream.every or not len(container):
            self._passed[port] = passed
            return
        self._passed[port] = 0
        bins = stream.sample(container)
        self._samples += len(bins)
        for bin_id in bins:
            self._counts[bin_id] = self._counts.get(bin_id, 0.0) + passed / len(bins)
        self._decay()

    def records_per_s(self) -> dict[BinId, float]:
        """As of now; bins that the sample has not met are left out."""
        self._decay()
        return {bin_id: count / self._elapsed_s for bin_id, count in smoothed(self._counts, self._samples).items()}

    def take(self, bin_id: BinId) -> float:
        """A bin leaves: how many records per second came to it."""
        return self._counts.pop(bin_id, 0.0) / self._elapsed_s

    def give(self, bin_id: BinId, records_per_s: float) -> None:
        """A bin comes, with what was known of it."""
        if records_per_s:
            self._counts[bin_id] = self._counts.get(bin_id, 0.0) + records_per_s * self._elapsed_s

    @property
    def _elapsed_s(self) -> float:
        return max(1e-3, self._clock() - self._since_s)

    def _decay(self) -> None:
        now_s = self._clock()
        if now_s - self._since_s > WINDOW_S:
            self._since_s = (now_s + self._since_s) / 2
            self._counts = {bin_id: count / 2 for bin_id, count in self._counts.items()}
            self._samples /= 2


def smoothed(counts: Mapping[BinId, float], samples: float) -> dict[BinId, float]:
    """Counts that add up from a number of samples, without the noise: those that may as well be equal are.

    Else, who takes the bins that seem to have most would get those that the sample has overrated.

    >>> smoothed({BinId(0): 90.0, BinId(1): 110.0, BinId(2): 1000.0, BinId(3): 10.0}, samples=1210)
    {0: 100.0, 1: 100.0, 2: 1000.0, 3: 10.0}
    """
    if not counts:
        return {}
    per_sample = sum(counts.values()) / max(samples, 1.0)
    middle = median(counts.values())
    noise = 2 * sqrt(middle * per_sample)
    alike = [bin_id for bin_id, count in counts.items() if abs(count - middle) <= noise]
    mean = sum(counts[bin_id] for bin_id in alike) / max(1, len(alike))
    return {**counts, **dict.fromkeys(alike, mean)}
