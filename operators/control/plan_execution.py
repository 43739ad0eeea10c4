"""A plan that is being carried out on a running job: facts in, commands out.

The driver (`operators.control.plan_driver`) tells what it sees of the operators on bins: their tables, and how far
their outputs are. A step is *taken* by the operators whose tables show it, *complete* when the outputs of all of these
are past the epoch at which it took effect, and refused if the epoch that it was sent at is complete and no table shows
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from routing.migration.plan import Plan, Step
from routing.migration.runner import PlanProgress, PlanRunner


@dataclass(frozen=True, slots=True)
class Seen:
    """One operator on bins, as the worker that sends commands sees it."""

    ahead: Sequence[WorkerId]
    """The owners once all that was announced is installed."""
    installed: Sequence[WorkerId]
    since: int
    """From when on these hold."""
    output: int | None
    """The least epoch that may still come out; None if nothing can."""

    def takes(self, step: Step) -> bool:
        """Whether the step is announced."""
        return _shows(self.ahead, step)

    def has_completed(self, step: Step) -> bool:
        """Whether the step is installed and its bins have arrived."""
        return _shows(self.installed, step) and (self.output is None or self.output > self.since)


def _shows(table: Sequence[WorkerId], step: Step) -> bool:
    return all(
        transfer.bin_id < len(table) and table[transfer.bin_id] == transfer.target for transfer in step.transfers
    )


@dataclass(slots=True)
class Stall:
    """The longest that the outputs of operators stood still while something was fed that had not come out."""

    seen_s: float
    longest_s: float = 0.0
    _moved_s: float = field(init=False)
    """When outputs last moved."""
    _outputs: dict[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._moved_s = self.seen_s

    def note(self, now_s: float, fed_at: int | None, operators: Mapping[str, Seen]) -> None:
        """Take how far the outputs are now, and which epoch is being fed (None: none any more)."""
        outputs = {path: seen.output for path, seen in operators.items()}
        caught_up = fed_at is not None and all(output is None or output >= fed_at for output in outputs.values())
        if outputs != self._outputs or caught_up:
            self._outputs, self._moved_s = outputs, now_s
        self.longest_s = max(self.longest_s, now_s - self._moved_s)
        self.seen_s = now_s


@dataclass(frozen=True, slots=True)
class PlanReport:
    """How a plan is doing, or how it ended."""

    progress: PlanProgress
    finished: bool
    failure: str | None
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still while it ran."""


@dataclass(slots=True)
class PlanExecution:
    """A plan under way."""

    plan: Plan
    began_s: float
    gap_s: float = 0.0
    failure: str | None = None
    runner: PlanRunner = field(init=False)
    _fed_at: int | None = field(init=False, default=None)
    """No later than this epoch the step under way was sent; known from the first look after sending it."""
    _stall: Stall = field(init=False)

    def __post_init__(self) -> None:
        self.runner = PlanRunner(self.plan, self.gap_s)
        self._stall = Stall(self.began_s)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be sent or waited for."""
        return self.failure is not None or self.runner.finished

    def look(self, now_s: float, fed_at: int | None, operators: Mapping[str, Seen]) -> Step | None:
        """Take what is seen of the operators, by path, and return the step to send now, if there is one.

        `fed_at` is the epoch at which commands are sent now; None if none can be sent any more.
        """
        if self.finished:
            return None
        if not operators:
            self.failure = "the job has ended"
            return None
        self._stall.note(now_s, fed_at, operators)
        done = self.runner.done
        if (step := self.runner.under_way) is not None:
            if self._fed_at is None and fed_at is not None:
                self._fed_at = fed_at
            takers = [seen for seen in operators.values() if seen.takes(step)]
            if takers and all(seen.has_completed(step) for seen in takers):
                done += 1
            elif not takers and self._is_past(operators):
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

    def report(self) -> PlanReport:
        """How it is doing, as of the last look."""
        return PlanReport(
            self.runner.progress(),
            self.finished,
            self.failure,
            self._stall.seen_s - self.began_s,
            self._stall.longest_s,
        )

    def _is_past(self, operators: Mapping[str, Seen]) -> bool:
        """Whether the epoch that the step was sent at is complete in every operator."""
        outputs = [seen.output for seen in operators.values()]
        return all(output is None or (self._fed_at is not None and output > self._fed_at) for output in outputs)


def _bins(step: Step) -> str:
    shown = [str(transfer.bin_id) for transfer in step.transfers[:8]]
    return ", ".join([*shown, "…"] if len(step.transfers) > 8 else shown)
