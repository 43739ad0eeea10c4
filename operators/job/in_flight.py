"""How many epochs of a job may be in flight: as many as come out within tens of milliseconds, whatever one costs.

Pure; the run loop (`operators.job.run_loop`) says what it has fed and what is complete, and asks whether to feed on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

LATENCY_TARGET_S = 0.035
"""How long an epoch should take from being fed to being complete."""

EPOCHS_MIN = 2
"""In flight with several workers: one epoch, and one for those that are done with their share of it."""

EPOCHS_FEW = 8
"""Up to this many in flight, a worker may run out of work while another keeps its share until the end of a step."""

EPOCHS_MAX = 256
"""They are in memory; and the next may be larger than all before it."""


class InFlight(NamedTuple):
    """An epoch that has been fed and is not complete."""

    epoch: int
    fed_s: float
    complete: int
    """How many epochs were complete when it was fed."""


@dataclass(slots=True)
class InFlightLimit:
    """A concurrency limit by Little's law: how many are in flight is throughput times latency.

    The throughput is what has come out during one epoch's flight, so a source that is slower than the job does not
    raise the limit to what it makes no use of. From one flight to the next it at most doubles; it falls at once.
    """

    limit: int = 1
    _in_flight: deque[InFlight] = field(default_factory=deque)
    _complete: int = 0

    def feed(self, epoch: int, now_s: float) -> None:
        """An epoch has been fed; they ascend."""
        self._in_flight.append(InFlight(epoch, now_s, self._complete))

    def complete_before(self, epoch: int, now_s: float) -> None:
        """All epochs before this one are complete."""
        in_flight = self._in_flight
        if not in_flight or in_flight[0].epoch >= epoch:
            return
        oldest = in_flight[0]
        while in_flight and in_flight[0].epoch < epoch:
            in_flight.popleft()
            self._complete += 1
        latency_s = max(now_s - oldest.fed_s, LATENCY_TARGET_S / 2)
        self.limit = min(round((self._complete - oldest.complete) * LATENCY_TARGET_S / latency_s), EPOCHS_MAX)

    @property
    def few(self) -> bool:
        """Whether so few epochs may be in flight that workers should get their shares of each at once."""
        return self.limit <= EPOCHS_FEW

    def full(self, workers: int) -> bool:
        """Whether no further epoch may be fed: one worker alone is never idle with an epoch in flight."""
        return len(self._in_flight) >= max(self.limit, min(workers, EPOCHS_MIN))
