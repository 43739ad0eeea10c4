"""Steps that are felt little: from one worker to another as many bins as take some milliseconds, pairs at once.

`StepBudget` learns from each step how many bytes that is. `paced` cuts what has to move by it: a step has bins of pairs
of workers of which none is in two pairs, so that no worker sends or receives more than one budget's worth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from framework.membership.members import WorkerId
from routing.migration.plan import Step, Transfer

STALL_S = 0.03
"""How long a step may hold outputs up, beyond what an epoch takes anyway: what it is sized for."""
WITHIN_S = 2.5
"""How long all steps together are to take: where each waits long for its turn, there are fewer and larger ones."""
GROWTH_MAX = 1.5
BYTES_FIRST = 256 * 1024
BYTES_MIN = 16 * 1024
BYTES_MAX = 16 * 1024 * 1024
BINS_MAX = 128
"""Of a pair in a step: a bin has messages of its own, however little is in it."""


@dataclass(frozen=True, slots=True)
class StepFelt:
    """What a step was like."""

    heaviest_bytes: int
    """The most that one worker had to send."""
    stall_s: float
    """How long it held outputs up, beyond what an epoch takes."""
    took_s: float
    """From when it was sent until it was complete."""
    whole_bytes: int
    """What all steps together move."""


@dataclass(slots=True)
class StepBudget:
    """How many bytes a worker may send in a step, by the time that the last ones took."""

    bytes_max: int = BYTES_FIRST
    bytes_min: int = BYTES_MIN

    def note(self, felt: StepFelt) -> None:
        """A step is complete."""
        wanted = self.bytes_max
        if felt.stall_s > STALL_S:
            wanted = int(wanted * max(0.25, STALL_S / felt.stall_s))
        elif 2 * felt.heaviest_bytes >= wanted:
            wanted = int(wanted * min(GROWTH_MAX, STALL_S / max(felt.stall_s, 1e-6)))
        in_time = int(felt.whole_bytes * felt.took_s / WITHIN_S)
        self.bytes_max = min(BYTES_MAX, max(self.bytes_min, wanted, in_time))


def paced(transfers: Iterable[Transfer], budget: StepBudget) -> Iterator[Step]:
    """The steps that `transfers`, the first ones first, are cut into; each by what `budget` is when it is asked for."""
    lanes: dict[tuple[WorkerId, WorkerId], list[Transfer]] = {}
    for transfer in transfers:
        lanes.setdefault((transfer.source, transfer.target), []).append(transfer)
    for waiting in lanes.values():
        waiting.reverse()
    while lanes:
        taken: list[Transfer] = []
        busy: set[tuple[str, WorkerId]] = set()
        for lane in sorted(lanes, key=lambda lane: (-len(lanes[lane]), lane)):
            sender, receiver = ("from", lane[0]), ("to", lane[1])
            if not busy & {sender, receiver}:
                busy |= {sender, receiver}
                taken += _packet(lanes[lane], budget.bytes_max)
        lanes = {lane: waiting for lane, waiting in lanes.items() if waiting}
        yield Step(tuple(taken))


def heaviest_sender(step: Step) -> int:
    """The most bytes that one worker sends in a step."""
    sent: dict[WorkerId, int] = {}
    for transfer in step.transfers:
        sent[transfer.source] = sent.get(transfer.source, 0) + transfer.state_bytes
    return max(sent.values(), default=0)


def _packet(waiting: list[Transfer], bytes_max: int) -> Iterator[Transfer]:
    """Take from the end of `waiting` up to a number of bytes and bins, at least one."""
    taken, size = 0, 0
    while waiting and taken < BINS_MAX and (not taken or size + waiting[-1].state_bytes <= bytes_max):
        taken, size = taken + 1, size + waiting[-1].state_bytes
        yield waiting.pop()
