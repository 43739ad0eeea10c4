"""Which commands workers that join and leave need: a joiner routing state and bins, a leaver to own none and retire.

Pure: the driver (`operators.job.steward`) says who has joined and who wishes to leave, shows the tables of the
operators, and sends what `act` returns, at most one set per epoch. After a step that moves bins, the next waits until
its epoch is complete, so that only one small step at a time adds latency. A `Bootstrap` does not wait: its joiner holds
records back, and epochs may not complete before it. A command that was refused, because another was sent at the same
epoch, is due again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.commands import Bootstrap, Instruction, Move, Retire

KEYS_PER_STEP = 4_000
"""About how many keys move in a step: what a worker ships in about ten milliseconds."""

BINS_PER_STEP_MAX = 16


@dataclass(frozen=True, slots=True)
class Ownership:
    """One operator on bins, as the worker that sends commands sees it."""

    owners: Sequence[WorkerId]
    """Of each bin, once all that was decided is installed."""
    eligible: frozenset[WorkerId]
    """Who may own bins."""
    decided: int
    """The last epoch with commands that was decided on."""
    complete: int
    """All earlier epochs are: their bins have arrived, and their results are out."""
    keys_per_bin: float = 0.0
    """About how many there are."""

    @property
    def bins_per_step(self) -> int:
        """How many bins may change hands at once."""
        return max(1, min(BINS_PER_STEP_MAX, int(KEYS_PER_STEP / max(1.0, self.keys_per_bin))))


@dataclass(slots=True)
class RescaleController:
    """The workers that join and leave, and the commands that they are sent."""

    worker: WorkerId
    """The one that sends the commands."""
    _joiners: list[WorkerId] = field(default_factory=list)
    _leavers: list[WorkerId] = field(default_factory=list)
    _wished: set[WorkerId] = field(default_factory=set)
    """Workers that have asked to leave, including those that have yet to join."""
    _sent_at: int = -1
    _moved_at: int = -1

    @property
    def busy(self) -> bool:
        """Whether a worker waits for commands."""
        return bool(self.waiting)

    @property
    def waiting(self) -> list[WorkerId]:
        """The workers that wait for commands."""
        return [*self._joiners, *self._leavers]

    def joined(self, worker: WorkerId) -> None:
        """A worker has joined, and has no routing state."""
        self._joiners.append(worker)
        if worker in self._wished and worker not in self._leavers:
            self._leavers.append(worker)

    def wishes_to_leave(self, worker: WorkerId) -> None:
        """A worker wants to leave, once it owns nothing."""
        self._wished.add(worker)
        if worker not in self._leavers:
            self._leavers.append(worker)

    def gone(self, worker: WorkerId) -> None:
        """A worker is no longer a member."""
        self._wished.discard(worker)
        for waiting in (self._joiners, self._leavers):
            if worker in waiting:
                waiting.remove(worker)

    def act(self, epoch: int, operators: Sequence[Ownership]) -> list[Instruction]:
        """The set of commands to send at `epoch`, empty if none is due."""
        if not operators:
            self._joiners.clear()
            self._leavers.clear()
        if not self.busy or any(operator.decided < self._sent_at for operator in operators):
            return []
        due = self._bootstrap(operators)
        if not due and all(operator.complete > self._moved_at for operator in operators):
            due = self._for_joiners(operators) or self._for_leavers(operators)
            self._moved_at = epoch if due else self._moved_at
        if due:
            self._sent_at = epoch
        return due

    def _bootstrap(self, operators: Sequence[Ownership]) -> list[Instruction]:
        for joiner in self._joiners:
            if any(joiner not in operator.eligible for operator in operators):
                return [Bootstrap(self.worker, joiner)]
        return []

    def _for_joiners(self, operators: Sequence[Ownership]) -> list[Instruction]:
        while self._joiners:
            joiner = self._joiners[0]
            for operator in operators if joiner not in self._wished else ():
                moves = _fill(joiner, operator, self._staying(operator))
                if moves:
                    return moves
            self._joiners.pop(0)
        return []

    def _for_leavers(self, operators: Sequence[Ownership]) -> list[Instruction]:
        while self._leavers:
            leaver = self._leavers[0]
            for operator in operators:
                moves = _empty(leaver, operator, self._staying(operator))
                if moves:
                    return moves
            if any(leaver in operator.eligible for operator in operators):
                return [Retire(leaver)]
            self._leavers.pop(0)
        return []

    def _staying(self, operator: Ownership) -> list[WorkerId]:
        return sorted(operator.eligible - self._wished)


def _fill(joiner: WorkerId, operator: Ownership, staying: Sequence[WorkerId]) -> list[Instruction]:
    """Moves of bins to a worker that has fewer than its share, from those that have most."""
    bins: dict[WorkerId, list[BinId]] = {worker: [] for worker in staying}
    for index, owner in enumerate(operator.owners):
        bins.setdefault(owner, []).append(BinId(index))
    lacking = len(operator.owners) // max(1, len(staying)) - len(bins.get(joiner, ()))
    moves: list[Instruction] = []
    for _ in range(min(lacking, operator.bins_per_step)):
        richest = max((worker for worker in bins if worker != joiner), key=lambda worker: (len(bins[worker]), -worker))
        moves.append(Move(bins[richest].pop(), joiner))
    return moves


def _empty(leaver: WorkerId, operator: Ownership, staying: Sequence[WorkerId]) -> list[Instruction]:
    """Moves of a worker's bins to those that have fewest."""
    load = Counter(dict.fromkeys(staying, 0))
    load.update(owner for owner in operator.owners if owner in load)
    moves: list[Instruction] = []
    for index, owner in enumerate(operator.owners):
        if owner == leaver and load and len(moves) < operator.bins_per_step:
            poorest = min(load, key=lambda worker: (load[worker], worker))
            load[poorest] += 1
            moves.append(Move(BinId(index), poorest))
    return moves
