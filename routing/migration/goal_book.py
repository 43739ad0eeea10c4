"""The goals of a job: which are under way, how far, and how the others ended. Pure; the controller keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from routing.migration.goals import Goal, GoalState, GoalStatus
from routing.migration.stall import StallMeter

GOALS_KEPT = 64
"""How many goals that have ended are remembered."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Bins, and the bytes in them."""

    bins: int = 0
    state_bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.bins + other.bins, self.state_bytes + other.state_bytes)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.bins - other.bins, self.state_bytes - other.state_bytes)


@dataclass(slots=True)
class TrackedGoal:
    """A goal, and what it is measured from."""

    goal: Goal
    state: GoalState
    began_s: float
    stall: StallMeter
    moved_before: Amount


@dataclass(slots=True)
class GoalBook:
    """Goals by their numbers."""

    goals: dict[int, TrackedGoal] = field(default_factory=dict)
    moved: Amount = Amount()
    """What has moved in all, for whichever goal."""

    def enter(self, goal: Goal, text: str, now_s: float) -> int:
        """A goal begins; its number."""
        number = max(self.goals) + 1 if self.goals else 0
        state = GoalState(number, text, "under way", "", 0.0, 0.0, 0, 0, 0, 0)
        self.goals[number] = TrackedGoal(goal, state, now_s, StallMeter(now_s), self.moved)
        for ended in [number for number, tracked in self.goals.items() if tracked.state.finished][:-GOALS_KEPT]:
            del self.goals[ended]
        return number

    @property
    def active(self) -> dict[int, TrackedGoal]:
        """The goals that are under way."""
        return {number: tracked for number, tracked in self.goals.items() if not tracked.state.finished}

    def update(self, now_s: float, left: Amount, waits_for: str) -> None:
        """Say how the goals are doing."""
        for tracked in self.active.values():
            moved = self.moved - tracked.moved_before
            tracked.state = replace(
                tracked.state,
                reason=waits_for,
                duration_s=now_s - tracked.began_s,
                stall_s_max=tracked.stall.longest_s,
                bins_moved=moved.bins,
                bins=(moved + left).bins,
                bytes_moved=moved.state_bytes,
                state_bytes=(moved + left).state_bytes,
            )

    def end(self, numbers: Iterable[int], status: GoalStatus, reason: str, now_s: float) -> list[GoalState]:
        """Goals end; how."""
        for number in numbers:
            tracked = self.goals[number]
            tracked.state = replace(tracked.state, status=status, reason=reason, duration_s=now_s - tracked.began_s)
        return [self.goals[number].state for number in numbers]
