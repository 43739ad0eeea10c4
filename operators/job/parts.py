"""Which file an output's records go to, and which epochs its files show as complete: pure.

An output's files are *parts*. The worker that feeds the job chooses epochs, *cuts*, that no part reaches across, and
announces each on a stream that all workers hear before that stream's frontier passes it. A worker writes an epoch's
records once it has heard of all cuts up to that epoch. It finishes a part once the frontier of its rows has come to the
cut behind it, and so has that of all workers. While it has an unfinished part, it holds a capability to report, at a
time before that cut. (Before a cut is known, that is a time before the frontier of the cuts.) Hence:

1. A finished part never changes, and has records of one side of each cut only.
2. Once the reports' frontier has come to a cut, all records before it are in finished parts that were reported. So the
   files said to be complete hold exactly the records before a cut, each once.

An epoch may also have a part of its own, which no cut divides: where a worker that joins or leaves may have missed one,
and for rows that cannot wait until the cuts are known.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field

CUT_AFTER_S_MIN = 1.0
CUT_AFTER_S_MAX = 30.0
CUT_AFTER_SHARE = 0.1
"""A cut is due this share of the run's time after the last one: results show soon, and files do not become many."""

_NAME = re.compile(r"part-(\d+)-(\d+)-w(\d+)\.jsonl")


@dataclass(frozen=True, slots=True, order=True)
class PartName:
    """What a finished part is called: the first and the last epoch that it has records of, and who wrote it."""

    first: int
    last: int
    worker: int

    def __str__(self) -> str:
        return f"part-{self.first}-{self.last}-w{self.worker}.jsonl"

    @staticmethod
    def is_one(name: str) -> bool:
        """Whether a file is named like a part."""
        return _NAME.fullmatch(name) is not None


@dataclass(eq=False, slots=True)
class OpenPart:
    """A part that is being written."""

    start: int
    alone: bool
    """Whether it is for the epoch `start` only, rather than up to the next cut."""
    first: int
    last: int


@dataclass(slots=True)
class Parts:
    """The unfinished parts of one worker. Frontiers are epochs, or None when nothing more comes."""

    hears_from: int | None = 0
    """From which epoch on it hears of all cuts. Who joins a running job knows that with the first that it hears of."""
    hears_until: int | None = None
    """From which epoch on it may miss cuts, since it leaves."""
    unfinished: dict[tuple[int, bool], OpenPart] = field(default_factory=dict)
    heard: int | None = 0
    """The frontier of the cuts."""
    _cuts: list[int] = field(default_factory=list)

    def cut(self, epoch: int) -> None:
        """Hear of a cut: no part has records both before `epoch` and of it or later ones."""
        insort(self._cuts, epoch)
        if self.hears_from is None:
            self.hears_from = epoch

    def leave(self) -> None:
        """The worker leaves: others may cut from where the frontier of the cuts was on, and not tell it."""
        if self.hears_until is None:
            self.hears_until = self.heard

    def of(self, epoch: int, *, at_once: bool = False) -> OpenPart | None:
        """The part for an epoch's records; None if it has to wait for cuts, unless that may not be."""
        if part := self.unfinished.get((epoch, True)):
            return part
        missed = self.hears_until is not None and epoch >= self.hears_until
        known = missed or self.heard is None or epoch < self.heard
        if not known and not at_once:
            return None
        alone = missed or not known or self.hears_from is None or epoch < self.hears_from
        place = bisect_right(self._cuts, epoch)
        start = epoch if alone else self._cuts[place - 1] if place else 0
        part = self.unfinished.setdefault((start, alone), OpenPart(start, alone, epoch, epoch))
        part.first, part.last = min(part.first, epoch), max(part.last, epoch)
        return part

    def take_finished(self, frontier: int | None) -> list[OpenPart]:
        """The parts that are finished now that the frontier of the rows is here."""
        finished = [part for part in self.unfinished.values() if self._is_finished(part, frontier)]
        for part in finished:
            del self.unfinished[part.start, part.alone]
        return finished

    def held_for(self) -> int | None:
        """The latest time that is before each cut at which a part may end; None if there are no such cuts."""
        ends = [self._end_of(part) or self.heard for part in self.unfinished.values()]
        return min((end - 1 for end in ends if end is not None), default=None)

    def _is_finished(self, part: OpenPart, frontier: int | None) -> bool:
        end = self._end_of(part)
        if end is None:
            return self.heard is None and frontier is None
        return _has_come_to(frontier, end)

    def _end_of(self, part: OpenPart) -> int | None:
        """The epoch that a part ends before, if that is known."""
        if part.alone:
            return part.start + 1
        place = bisect_right(self._cuts, part.start)
        return self._cuts[place] if place < len(self._cuts) else self.hears_until


@dataclass(slots=True)
class Completion:
    """What all workers' parts of one output show, on the worker that hears of them."""

    complete: int | None = None
    """The last epoch that is complete."""
    files: list[PartName] = field(default_factory=list)
    """The parts up to that epoch, in its order."""
    _reported: list[PartName] = field(default_factory=list)
    """Those beyond it."""
    _cuts: list[int] = field(default_factory=list)

    def report(self, part: PartName) -> None:
        """A part is finished."""
        insort(self._reported, part)

    def cut(self, epoch: int) -> None:
        """Hear of a cut."""
        insort(self._cuts, epoch)

    def advance(self, frontier: int | None) -> bool:
        """The frontier of the reports is here; whether more is complete than before."""
        reached = len(self._cuts) if frontier is None else bisect_right(self._cuts, frontier)
        if not reached:
            return False
        end = self._cuts[reached - 1]
        del self._cuts[:reached]
        self._take_before(end)
        self.complete = end - 1
        return True

    def end(self) -> None:
        """The output has ended: all is complete."""
        assert not self._cuts, self._cuts
        lasts = [part.last for part in self._reported]
        self.complete = max(lasts, default=self.complete)
        self._take_before(None)

    def _take_before(self, end: int | None) -> None:
        place = len(self._reported) if end is None else bisect_left(self._reported, PartName(end, 0, 0))
        self.files, self._reported = self.files + self._reported[:place], self._reported[place:]
        assert end is None or all(part.last < end for part in self.files), (end, self.files)


@dataclass(slots=True)
class CutPolicy:
    """When a cut is due, in a run that began at `began_s`."""

    began_s: float
    _last_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_s = self.began_s

    def left_s(self, now_s: float) -> float:
        """How long it is until one is due; 0 if it is."""
        share_s = CUT_AFTER_SHARE * (self._last_s - self.began_s)
        due_s = self._last_s + min(max(share_s, CUT_AFTER_S_MIN), CUT_AFTER_S_MAX)
        return max(0.0, due_s - now_s)

    def cut(self, now_s: float) -> None:
        """One was made."""
        self._last_s = now_s


def _has_come_to(frontier: int | None, epoch: int) -> bool:
    return frontier is None or frontier >= epoch
