"""The one place that decides which bins move when: for workers that join and leave, and for whoever asks.

Pure: the driver (`operators.job.steward`) says who has joined and who wants to leave, what is asked for and what time
it is, shows the groups of operators, and sends what `act` returns, at most one set of commands per epoch.

Goals are put together into one target, the owner that each bin shall have, and bins move there in steps, one step at a
time: the next is sent when the last is complete. Whatever changes meanwhile (another goal, a worker that comes or goes,
commands of somebody else, a step that was refused) changes the target, and the steps are planned again from where the
bins are. Before a target is made, the workers are asked what their bins weigh (`Weigh`).

A `Bootstrap` does not wait for a step to complete: its joiner holds records back, and epochs may not complete before
it. Nobody is given bins who is about to leave. Who wants to leave retires when it owns nothing; who is only to leave,
by a `Resize`, is emptied, and may stay after all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.commands import Bootstrap, Instruction, Move, Retire, Weigh
from routing.errors import GoalRefused
from routing.load import BinWeight, WeighedBins, costs
from routing.migration.balance import rehome, spread
from routing.migration.goal_book import Amount, GoalBook
from routing.migration.goals import Assign, Goal, GoalState, GoalStatus, Pace, Rebalance, Resize, steps_of
from routing.migration.pacing import StepBudget, StepFelt, heaviest_sender
from routing.migration.plan import Step
from routing.migration.strategies import Reassignment

REFUSALS_MAX = 8
"""How often in a row a step may be refused, as when another is sent at the same epoch, before goals are given up."""

JOB_ENDS = "the job's inputs have ended, and its bins move no more"


@dataclass(frozen=True, slots=True)
class GroupView:
    """The operators of a group, as the worker that sends commands sees them."""

    name: str
    owners: Sequence[WorkerId]
    """Of each bin, once all that was decided is installed. When they change, it is another list."""
    eligible: frozenset[WorkerId]
    """Who may own bins."""
    decided: int
    """The last epoch with commands that was decided on."""
    complete: int
    """All earlier epochs are: their bins have arrived, and their results are out."""
    weighed: WeighedBins | None = None
    """What was last heard of the bins' weights."""
    heard: int = 0
    """What workers had to say of the bins' weights at all earlier epochs has arrived."""

    @property
    def weights(self) -> Mapping[BinId, BinWeight]:
        """What the bins weigh, as far as it is known."""
        return self.weighed.weights if self.weighed is not None else {}


@dataclass(slots=True)
class _Flight:
    """A step that was sent and is not complete."""

    group: str
    step: Step
    epoch: int
    sent_s: float
    epochs_before: int
    """How many epochs were to be completed before its bins could leave."""
    reached_s: float
    """When these were not yet, as was last seen: after that its bins may have left."""
    counted: bool = False
    """Whether its bins count as moved already."""

    @property
    def amount(self) -> Amount:
        return Amount(len(self.step.transfers), self.step.state_bytes)

    def felt(self, now_s: float, whole_bytes: int) -> StepFelt:
        """What it was like, now that it is complete."""
        epoch_s = (self.reached_s - self.sent_s) / max(1, self.epochs_before)
        stall_s = max(0.0, now_s - self.reached_s - epoch_s)
        return StepFelt(heaviest_sender(self.step), stall_s, now_s - self.sent_s, whole_bytes)


@dataclass(slots=True)
class MigrationController:
    """The workers that come and go, the goals, and the steps on the way to them."""

    worker: WorkerId
    """The one that sends the commands."""
    budget: StepBudget = field(default_factory=StepBudget)
    book: GoalBook = field(default_factory=GoalBook)
    busy: bool = False
    """Whether anything is left to be commanded, or waited for."""
    _joiners: list[WorkerId] = field(default_factory=list)
    """Members that have not been bootstrapped."""
    _new: set[WorkerId] = field(default_factory=set)
    """Workers that have joined and do not have their share yet."""
    _expected: set[WorkerId] = field(default_factory=set)
    """Workers that are about to join: bins are not moved before they have, so that each moves once."""
    _unfilled: set[WorkerId] = field(default_factory=set)
    """Workers that are to get no share when they join, since that was cancelled."""
    _wished: set[WorkerId] = field(default_factory=set)
    """Workers that want to leave, of their own."""
    _resized: set[WorkerId] = field(default_factory=set)
    """Workers that are to leave by the last `Resize`."""
    _emptying: set[WorkerId] = field(default_factory=set)
    """Those of the former that have not retired, and of the latter that own bins, as was last seen."""
    _change: Literal["", "rehome", "spread"] = ""
    """What the target must be made again for: bins whose owner leaves, or all bins."""
    _weigh_at: int | None = None
    _targets: dict[str, list[WorkerId]] = field(default_factory=dict)
    _steps: dict[str, Iterator[Step]] = field(default_factory=dict)
    _left: dict[str, Amount] = field(default_factory=dict)
    """What has to move, the step under way included."""
    _whole_bytes: int = 0
    """What had to move when the targets were made."""
    _known: dict[str, Sequence[WorkerId]] = field(default_factory=dict)
    """The owners as they were last seen, by group."""
    pace: Pace = field(default_factory=Pace)
    """How bins move: as the last goal has it."""
    _flight: _Flight | None = None
    _rest_until_s: float = float("-inf")
    _refusals: int = 0
    _spread_for: int = -1
    """The newest goal that concerns all bins: what was asked for before gives way to it."""
    _closed: bool = False
    _sent_at: int = -1
    _moved_at: int = -1

    # What the driver asks

    @property
    def waiting(self) -> list[WorkerId]:
        """The workers that wait for commands: to know the owners and have their share, or to be rid of their bins."""
        return sorted({*self._joiners, *self._new, *self._emptying})

    @property
    def under_way(self) -> Step | None:
        """The step that was sent and is not complete."""
        return self._flight.step if self._flight is not None else None

    @property
    def due_at_s(self) -> float | None:
        """When the next step is due, if only time has to pass."""
        resting = self.busy and self._flight is None and self._rest_until_s > float("-inf")
        return self._rest_until_s if resting else None

    @property
    def rests(self) -> bool:
        """Whether nothing is under way, and nothing follows before time has passed or a worker has joined."""
        under_way = self._flight is not None or self._joiners or self._wished
        return not under_way and bool(self._expected or self.due_at_s is not None)

    def state(self, number: int) -> GoalState:
        """How a goal is doing."""
        return self.book.goals[number].state

    # Facts

    def joined(self, worker: WorkerId) -> None:
        """A worker has joined, and has no routing state."""
        self._joiners.append(worker)
        self._expected.discard(worker)
        self.busy = True
        if worker in self._unfilled:
            self._unfilled.discard(worker)
        else:
            self._new.add(worker)
            self._retarget("spread")

    def not_coming(self, worker: WorkerId) -> None:
        """A worker that was about to join does not."""
        self._expected.discard(worker)

    def wishes_to_leave(self, worker: WorkerId) -> None:
        """A worker wants to leave, once it owns nothing."""
        if worker not in self._wished:
            self._wished.add(worker)
            self._retarget("rehome" if worker in self._resized else "spread")

    def gone(self, worker: WorkerId) -> None:
        """A worker is no longer a member."""
        if worker in self._joiners:
            self._joiners.remove(worker)
        for workers in (self._expected, self._unfilled, self._new, self._wished, self._resized, self._emptying):
            workers.discard(worker)

    # Goals

    def start(
        self, goal: Goal, text: str, pace: Pace, now_s: float, groups: Sequence[GroupView], joined: Collection[WorkerId]
    ) -> int:
        """Take a goal, called `text`; its number. Raises `GoalRefused`. `joined` has all who have."""
        if self._closed:
            raise GoalRefused(JOB_ENDS)
        if all(group.decided >= self._sent_at for group in groups):
            self._observe(now_s, groups)
        older = [number for number, one in self.book.active.items() if isinstance(one.goal, Resize)]
        if not older:
            self._resized.clear()  # who was emptied, and then not told to leave, stays
        match goal:
            case Assign():
                self._assign(goal, groups)
            case Rebalance():
                self._retarget("spread")
            case Resize():
                self.book.end(older, "superseded", f"superseded by {text}", now_s)
                self._expected, self._resized = set(goal.joining) - set(joined), set(goal.leaving)
                self._retarget("spread")
        self._set_pace(pace)
        self.busy = True
        number = self.book.enter(goal, text, now_s)
        if not isinstance(goal, Assign):
            self._spread_for = number
        return number

    def cancel(self, now_s: float) -> list[GoalState]:
        """Send no more steps for any goal; one that is under way completes. The goals that this has ended."""
        if self._flight is not None and not self._flight.counted:
            self._count(self._flight)
            self.book.update(now_s, sum(self._left.values(), Amount()), "")
        return self._give_up("cancelled", "", now_s)

    def close(self, now_s: float) -> None:
        """The job's inputs have ended: only what workers need that are on their way in or out is still done."""
        ended = [
            number for number, one in self.book.active.items() if not isinstance(one.goal, Resize) or self._expected
        ]
        self.book.end(ended, "failed", JOB_ENDS, now_s)
        self._closed = True
        self._set_pace(replace(self.pace, gap_s=0.0))
        self._expected.clear()
        if ended:
            self._stay()
            if self._new or self._leaving or self.book.active:
                self._retarget("spread")

    # Commands

    def act(self, now_s: float, epoch: int, groups: Sequence[GroupView], *, moves: bool = True) -> list[Instruction]:
        """The set of commands to send at `epoch`, empty if none is due. Without `moves`, no bin may move now."""
        if not self.busy or any(group.decided < self._sent_at for group in groups):
            return []
        outputs = {group.name: group.complete for group in groups}
        for goal in self.book.active.values():
            goal.stall.note(now_s, epoch, outputs)
        self._observe(now_s, groups)
        due = self._bootstrap(groups) or (self._due(now_s, epoch, groups) if moves and not self._joiners else [])
        if due:
            self._sent_at = epoch
        self._conclude(now_s, groups)
        return due

    def _bootstrap(self, groups: Sequence[GroupView]) -> list[Instruction]:
        for joiner in self._joiners:
            if any(joiner not in group.eligible for group in groups):
                return [Bootstrap(self.worker, joiner)]
        self._joiners.clear()
        return []

    def _due(self, now_s: float, epoch: int, groups: Sequence[GroupView]) -> list[Instruction]:
        if self._flight is not None or any(group.complete <= self._moved_at for group in groups):
            return []
        if self._change == "rehome" and not self._targets and not self._owning(self._leaving, groups):
            self._change = ""
        if self._change and groups:
            if self._expected:
                return self._retire(groups)
            if self._must_weigh(groups):
                self._weigh_at = epoch
                return [Weigh(self.worker)]
            if any(self._weigh_at is None or group.heard <= self._weigh_at for group in groups):
                return []
            self._aim(groups)
        return self._step(now_s, epoch, groups) or self._retire(groups)

    def _step(self, now_s: float, epoch: int, groups: Sequence[GroupView]) -> list[Instruction]:
        if now_s < self._rest_until_s:
            return []
        for group in groups:
            step = next(self._steps.get(group.name, iter(())), None)
            if step is not None:
                before = max(0, epoch - min(each.complete for each in groups))
                self._flight, self._moved_at = _Flight(group.name, step, epoch, now_s, before, now_s), epoch
                owners = list(group.owners)
                for transfer in step.transfers:
                    owners[transfer.bin_id] = transfer.target
                self._known[group.name] = owners
                return [Move(transfer.bin_id, transfer.target, group.name) for transfer in step.transfers]
        return []

    def _retire(self, groups: Sequence[GroupView]) -> list[Instruction]:
        for leaver in sorted(self._wished):
            eligible = [group.eligible for group in groups if leaver in group.eligible]
            owns = any(leaver in group.owners for group in groups)
            if eligible and not owns and all(len(workers) > 1 for workers in eligible):
                return [Retire(leaver)]
        return []

    # What has become of commands

    def _observe(self, now_s: float, groups: Sequence[GroupView]) -> None:
        """See whether the step under way was taken, refused or completed, and whether others have moved bins."""
        if self._flight is not None and self._flight.group not in {group.name for group in groups}:
            self._flight = None
        for group in groups:
            if self._flight is not None and self._flight.group == group.name:
                self._observe_flight(self._flight, group, now_s, min(each.complete for each in groups))
            known = self._known.get(group.name, group.owners)
            if group.owners is not known and list(group.owners) != list(known):
                self._adopt(group, known)
            self._known[group.name] = group.owners

    def _observe_flight(self, flight: _Flight, group: GroupView, now_s: float, complete: int) -> None:
        if any(group.owners[transfer.bin_id] == transfer.source for transfer in flight.step.transfers):
            self._flight, self._refusals = None, self._refusals + 1
            self._known[group.name] = group.owners
            self._plan(group)
            if self._refusals > REFUSALS_MAX:
                self._give_up("failed", f"its commands were refused {self._refusals} times", now_s)
                self._refusals = 0
            return
        if complete < flight.epoch:
            flight.reached_s = now_s
        if complete > flight.epoch:
            if not flight.counted:
                self._count(flight)
            self.budget.note(flight.felt(now_s, self._whole_bytes))
            self._rest_until_s = now_s + self.pace.gap_s
            self._flight, self._refusals = None, 0

    def _count(self, flight: _Flight) -> None:
        flight.counted = True
        self.book.moved += flight.amount
        if flight.group in self._left:
            self._left[flight.group] -= flight.amount

    def _adopt(self, group: GroupView, known: Sequence[WorkerId]) -> None:
        """Somebody else has moved bins: leave them there, unless they went to who leaves."""
        moved = [index for index, (was, now) in enumerate(zip(known, group.owners, strict=True)) if was != now]
        if any(group.owners[index] in self._leaving for index in moved):
            self._retarget("rehome")
        target = self._targets.get(group.name)
        if target is not None:
            for index in moved:
                if group.owners[index] not in self._leaving:
                    target[index] = group.owners[index]
            self._plan(group)

    # The target

    @property
    def _leaving(self) -> set[WorkerId]:
        return self._wished | self._resized

    @staticmethod
    def _owning(workers: Collection[WorkerId], groups: Sequence[GroupView]) -> set[WorkerId]:
        return {worker for worker in workers if any(worker in group.owners for group in groups)}

    def _set_pace(self, pace: Pace) -> None:
        self.pace, self._rest_until_s = pace, float("-inf")

    def _retarget(self, change: Literal["rehome", "spread"]) -> None:
        if self._change != "spread":
            self._change = change
        self._weigh_at = None
        self.busy = True

    def _give_up(self, status: GoalStatus, reason: str, now_s: float) -> list[GoalState]:
        """End all goals; only workers that want to leave, of their own, are still emptied."""
        ended = self.book.end(list(self.book.active), status, reason, now_s)
        self._unfilled |= self._expected
        for workers in (self._expected, self._resized, self._new):
            workers.clear()
        self._stay()
        if self._wished:
            self._retarget("rehome")
        return ended

    def _stay(self) -> None:
        """Let the bins be where they are."""
        self._rest_until_s = float("-inf")
        self._targets.clear()
        self._steps.clear()
        self._left.clear()
        self._change = ""

    def _must_weigh(self, groups: Sequence[GroupView]) -> bool:
        """Whether the workers are to be asked, because they have not been, or because that was refused."""
        at = self._weigh_at
        return at is None or any(
            group.heard > at and (group.weighed is None or group.weighed.time < at) for group in groups
        )

    def _assign(self, goal: Assign, groups: Sequence[GroupView]) -> None:
        group = next((group for group in groups if group.name == goal.group), None)
        if group is None:
            known = ", ".join(repr(group.name) for group in groups) or "none"
            raise GoalRefused(f"there is no group {goal.group!r} of operators whose bins can move; there are {known}")
        may_own = group.eligible - self._leaving
        for bin_id, worker in goal.owners.items():
            if not 0 <= bin_id < len(group.owners):
                raise GoalRefused(f"there is no bin {bin_id}; the bins are 0 to {len(group.owners) - 1}")
            if worker not in may_own:
                why = "is about to leave" if worker in self._leaving else "may own no bins"
                listed = ", ".join(map(str, sorted(may_own)))
                raise GoalRefused(f"worker {worker} {why}; name one of {listed} for bin {bin_id}")
        owners = self._known.setdefault(group.name, group.owners)
        target = self._targets.setdefault(group.name, list(owners))
        for bin_id, worker in goal.owners.items():
            target[bin_id] = worker
        self._retarget("rehome")

    def _aim(self, groups: Sequence[GroupView]) -> None:
        """Make the targets again, and plan the steps to them."""
        share_out = spread if self._change == "spread" else rehome
        for group in groups:
            staying = sorted(group.eligible - self._leaving)
            if staying:
                before = self._targets.get(group.name, group.owners)
                target = self._targets[group.name] = share_out(before, staying, costs(group.weights))
                for bin_id, worker in self._assigned_since(group.name):
                    if worker in staying:
                        target[bin_id] = worker
            self._known[group.name] = group.owners
            self._plan(group)
        self._whole_bytes = sum(self._left.values(), Amount()).state_bytes
        self._change = ""

    def _assigned_since(self, group: str) -> Iterator[tuple[BinId, WorkerId]]:
        """What was asked for after the last goal that concerns all bins."""
        for number, tracked in self.book.active.items():
            if isinstance(tracked.goal, Assign) and tracked.goal.group == group and number > self._spread_for:
                yield from tracked.goal.owners.items()

    def _plan(self, group: GroupView) -> None:
        target = self._targets.get(group.name)
        if target is None:
            return
        change = Reassignment(
            group.owners,
            target,
            {bin_id: weight.state_bytes for bin_id, weight in group.weights.items()},
            {bin_id: weight.records_per_s for bin_id, weight in group.weights.items()},
        )
        transfers = change.transfers()
        left = Amount(len(transfers), sum(transfer.state_bytes for transfer in transfers))
        if self._flight is not None and self._flight.group == group.name and not self._flight.counted:
            left += self._flight.amount
        self._left[group.name] = left
        self._steps[group.name] = steps_of(change, self.pace, self.budget)

    # The ends of goals

    def _conclude(self, now_s: float, groups: Sequence[GroupView]) -> None:
        """See which goals are reached, and whether anything is left to do."""
        if not groups:
            self._stay()
            self._flight = None
        left = sum((self._left.get(group.name, Amount()) for group in groups), Amount())
        moving = bool(left.bins or self._change or self._flight or any(g.complete <= self._moved_at for g in groups))
        self._emptying = self._owning(self._resized, groups)
        self._emptying |= {leaver for leaver in self._wished if any(leaver in group.eligible for group in groups)}
        arriving = bool(self._expected or self._joiners)
        self.book.update(now_s, left, self._waits_for(left))
        for number, tracked in self.book.active.items():
            match tracked.goal:
                case Assign():
                    self._judge(number, tracked.goal, now_s, groups)
                case Rebalance() if not moving:
                    self.book.end([number], "reached", "", now_s)
                case Resize() if not (moving or arriving or self._emptying):
                    self.book.end([number], "reached", "", now_s)
        if not moving and not arriving:
            self._new.clear()
            self._stay()
        self.busy = bool(moving or arriving or self._emptying or self.book.active)

    def _judge(self, number: int, goal: Assign, now_s: float, groups: Sequence[GroupView]) -> None:
        group = next((group for group in groups if group.name == goal.group), None)
        if group is None:
            self.book.end([number], "failed", "the operators of its bins have ended", now_s)
        elif self._change == "" and self._flight is None:
            target = self._targets.get(goal.group, group.owners)
            if any(target[bin_id] != worker for bin_id, worker in goal.owners.items()):
                self.book.end([number], "superseded", "superseded by what was asked for later", now_s)
            elif all(group.owners[bin_id] == worker for bin_id, worker in goal.owners.items()):
                self.book.end([number], "reached", "", now_s)

    def _waits_for(self, left: Amount) -> str:
        if self._expected:
            return f"worker {min(self._expected)} is to join"
        if self._joiners:
            return f"worker {self._joiners[0]} waits for the owners of bins"
        if left.bins:
            return f"{left.bins} bins are to move"
        return "the last bins are on their way"
