"""When each step of a plan is sent: the next one when the one before is complete, and a gap has passed.

The runner decides; its driver sends the step's controls, sees by the output frontier that a step is complete, and knows
the time. A gap between steps lets the backlog of one be processed before the next, so that no record waits for two
(Megaphone 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from routing.errors import PlanInvalid
from routing.migration.plan import Plan, Step


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """How far a plan has got: what is complete, of how much."""

    steps_done: int
    steps: int
    bins_moved: int
    bins: int
    bytes_moved: int
    state_bytes: int
    cancelled: bool

    def __str__(self) -> str:
        return (
            f"{self.steps_done} of {self.steps} steps, {self.bins_moved} of {self.bins} bins, "
            f"{self.bytes_moved} of {self.state_bytes} bytes{', cancelled' * self.cancelled}"
        )


@dataclass(slots=True)
class PlanRunner:
    """A plan under way. A run that was interrupted goes on with the number of steps that were done before."""

    plan: Plan
    gap_s: float = 0.0
    done: int = 0
    """How many steps are complete."""
    cancelled: bool = False
    _sent: int = field(init=False)
    _resting_until_s: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not self.gap_s >= 0:
            raise PlanInvalid(f"a gap of {self.gap_s} s between steps cannot be; give 0 or more")
        if not 0 <= self.done <= len(self.plan.steps):
            raise PlanInvalid(f"{self.done} steps were done, but the plan has {len(self.plan.steps)}")
        self._sent = self.done

    def next(self, now_s: float, completed_step: int | None) -> Step | None:
        """The step to send now, if there is one; each is returned once.

        `completed_step` is the index of the newest step that is known to be complete, None before the first is.
        """
        done = 0 if completed_step is None else completed_step + 1
        assert done <= self._sent, f"step {completed_step} is complete, but only {self._sent} were sent"
        if done > self.done:
            self.done = done
            self._resting_until_s = now_s + self.gap_s
        due_s = self.due_s
        if due_s is None or now_s < due_s:
            return None
        step = self.plan.steps[self._sent]
        self._sent += 1
        return step

    @property
    def due_s(self) -> float | None:
        """When to ask for the next step: a time that may have passed, or None while it waits for a completion."""
        if self.cancelled or self.done < self._sent or self._sent == len(self.plan.steps):
            return None
        return self._resting_until_s if self._resting_until_s is not None else float("-inf")

    @property
    def under_way(self) -> Step | None:
        """The step that was sent and is not complete."""
        return self.plan.steps[self.done] if self.done < self._sent else None

    @property
    def finished(self) -> bool:
        """Whether nothing is under way and nothing will be sent: all is done, or the rest is cancelled."""
        return self.done == self._sent and (self.cancelled or self.done == len(self.plan.steps))

    @property
    def remaining(self) -> Plan:
        """The steps that were not sent."""
        return self.plan.after(self._sent)

    def cancel(self) -> None:
        """Send no more steps. One that is under way completes: every bin is on one side or the other."""
        self.cancelled = True

    def resume(self) -> None:
        """Go on after `cancel`."""
        self.cancelled = False

    def progress(self) -> PlanProgress:
        """How far it has got."""
        complete = Plan(self.plan.steps[: self.done])
        return PlanProgress(
            steps_done=self.done,
            steps=len(self.plan.steps),
            bins_moved=complete.bins,
            bins=self.plan.bins,
            bytes_moved=complete.state_bytes,
            state_bytes=self.plan.state_bytes,
            cancelled=self.cancelled,
        )
