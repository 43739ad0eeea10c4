"""Whatever epochs cost, and however that changes: workers are busy, and what is fed is complete soon."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from operators.job.in_flight import EPOCHS_MAX, LATENCY_TARGET_S, InFlightLimit

LAG_S_MAX = 0.01
"""How long an epoch is on its way at most, whatever it costs."""

SETTLE_S = 10 * LAG_S_MAX
"""The limit doubles eight times, from two to its maximum, and is that of costs that were higher before."""


@dataclass
class Pipeline:
    """Works on one epoch after the other, each `lag_s` after it was fed or later; its source always has more."""

    lag_s: float
    workers: int
    limit: InFlightLimit = field(default_factory=InFlightLimit)
    now_s: float = 0.0
    idle_s: float = 0.0
    fed_s: list[float] = field(default_factory=list)
    complete_s: list[float] = field(default_factory=list)
    complete: int = 0

    def feed(self, cost_s: float) -> float:
        """Feed an epoch as soon as that is allowed; its latency."""
        while self.limit.full(self.workers):
            self.now_s = max(self.now_s, self.complete_s[self.complete])
            self.complete += 1
            self.limit.complete_before(self.complete, self.now_s)
        self.limit.feed(len(self.fed_s), self.now_s)
        free_s = self.complete_s[-1] if self.complete_s else 0.0
        began_s = max(free_s, self.now_s + self.lag_s)
        self.idle_s += began_s - free_s
        self.fed_s.append(self.now_s)
        self.complete_s.append(began_s + cost_s)
        return self.complete_s[-1] - self.now_s

    def knows(self, epoch: int) -> bool:
        """Whether the last epoch that is complete was fed after `epoch` was complete."""
        return 0 < epoch < self.complete and self.fed_s[self.complete - 1] >= self.complete_s[epoch]


costs_s = st.floats(-4, -0.7).map(lambda exponent: 10**exponent)  # 0.1 to 200 ms
phases = st.lists(st.tuples(costs_s, st.integers(1, 200)), min_size=1, max_size=4)


@given(phases, st.floats(0, LAG_S_MAX), st.integers(1, 3))
def test_workers_are_busy_and_latencies_are_bounded(phases: list[tuple[float, int]], lag_s: float, workers: int):
    """Epochs cost the same for a while, and then more or less. One worker sends nothing, so that nothing has a lag."""
    pipeline = Pipeline(lag_s if workers > 1 else 0, workers)
    for cost_s, epochs in phases:
        first = len(pipeline.fed_s)
        for _ in range(epochs):
            latency_s = pipeline.feed(cost_s)
            if pipeline.knows(first):  # 1 ns for rounding
                assert latency_s <= max(LATENCY_TARGET_S + cost_s, min(workers, 2) * cost_s) + pipeline.lag_s + 1e-9
            assert len(pipeline.fed_s) - pipeline.complete <= EPOCHS_MAX
    assert pipeline.idle_s <= SETTLE_S * len(phases)
