"""A plan that runs: views of the operators on bins in, steps to send out. Pure.

The driver (`operators.control.plan_driver`) shows it the operators: their tables, and how far their outputs are. A step
is *taken* by the operators whose tables show it, *complete* when the outputs of all of these are past the epoch at
which it took effect, and refused if the epoch that it was sent at is complete and no table shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operators.control.operator_view import BinnedOperatorView, StallMeter
from operators.control.worker_messages import PlanState
from routing.migration.plan import Plan, Step
from routing.migration.runner import PlanRunner


@dataclass(slots=True)
class RunningPlan:
    """A plan under way, or one that has ended."""

    number: int
    plan: Plan
    began_s: float
    gap_s: float = 0.0
    failure: str | None = None
    runner: PlanRunner = field(init=False)
    _fed_at: int | None = field(init=False, default=None)
    """No later than this epoch the step under way was sent; known from the first views after sending it."""
    _stall: StallMeter = field(init=False)

    def __post_init__(self) -> None:
        self.runner = PlanRunner(self.plan, self.gap_s)
        self._stall = StallMeter(self.began_s)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be sent or waited for."""
        return self.failure is not None or self.runner.finished

    def observe(self, now_s: float, fed_at: int | None, views: Mapping[str, BinnedOperatorView]) -> Step | None:
        """Take the views of the operators, by path, and return the step to send now, if there is one.

        `fed_at` is the epoch at which commands are sent now; None if none can be sent any more.
        """
        if self.finished:
            return None
        if not views:
            self.failure = "the job has ended"
            return None
        self._stall.note(now_s, fed_at, views)
        done = self.runner.done
        if (step := self.runner.under_way) is not None:
            if self._fed_at is None and fed_at is not None:
                self._fed_at = fed_at
            takers = [view for view in views.values() if view.takes(step)]
            if takers and all(view.has_completed(step) for view in takers):
                done += 1
            elif not takers and self._is_past(views):
                self.failure = f"step {done} was refused; bins {_bins(step)} are where they were"
                return None
        following = self.runner.next(now_s, done - 1 if done else None)
        if following is not None:
            self._fed_at = None
            if fed_at is None:
                self.failure = "the job's inputs have ended, and its bins move no more"
                return None
        return following

    def cancel(self) -> None:
        """Send no more steps; one that is under way completes."""
        self.runner.cancel()

    def abandon(self, reason: str) -> None:
        """The rest cannot be sent."""
        self.failure = self.failure or reason

    def state(self) -> PlanState:
        """How it is doing, as of the last views."""
        progress = self.runner.progress()
        return PlanState(
            plan=self.number,
            finished=self.finished,
            failure=self.failure,
            duration_s=self._stall.seen_s - self.began_s,
            stall_s_max=self._stall.longest_s,
            cancelled=progress.cancelled,
            steps_done=progress.steps_done,
            steps=progress.steps,
            bins_moved=progress.bins_moved,
            bins=progress.bins,
        )

    def _is_past(self, views: Mapping[str, BinnedOperatorView]) -> bool:
        """Whether the epoch that the step was sent at is complete in every operator."""
        outputs = [view.output for view in views.values()]
        return all(output is None or (self._fed_at is not None and output > self._fed_at) for output in outputs)


def _bins(step: Step) -> str:
    shown = [str(transfer.bin_id) for transfer in step.transfers[:8]]
    return ", ".join([*shown, "…"] if len(step.transfers) > 8 else shown)
