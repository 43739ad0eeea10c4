"""When what was committed at a job's inputs is taken in, when its committers are answered, and when all has come out.

Back-pressure has two reasons. A job that is *behind* has many batches under way: few more are released to it, and a
commit is answered only when few are left before it. A job that is *held* has no room for what would come out: nothing
is released, and no commit is answered. Epochs without records may pass all the same, for bins that move, say.

What is in the job when it is held still comes out. It is bounded: `RELEASED_MAX` batches of each input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.progress.order import EPOCH_MAX
from operators.broker.intake import AHEAD_MAX, Intake, Release
from operators.broker.outbox import Outbox

RELEASED_MAX = AHEAD_MAX + 1
"""How many batches of an input may be under way in the job, unless all of them wait for another input."""

INPUT_AHEAD_MAX = 1000
"""How many epochs an input may be ahead of another that is fed more slowly: they wait in the job's memory."""


@dataclass(frozen=True, slots=True)
class SettleGoal:
    """What has to come out: all that was decided by some time."""

    decided: Mapping[str, int]
    """How many decisions there were at each input."""
    ended: bool
    """Whether all inputs had ended: then all that can come out has to."""


@dataclass(slots=True)
class FlowControl:
    """Decides about the inputs and outputs of one job, and keeps how far the job is. Pure."""

    inputs: Mapping[str, Intake]
    outputs: Mapping[str, Outbox]
    complete: int = 0
    """Epochs before this one have come through the whole job."""

    def releasable(self) -> Intake | None:
        """The input whose next decision is to be released, if the job is not held: the one that is furthest behind."""
        return min(self._releasable(), key=lambda intake: intake.epoch, default=None)

    def release(self) -> Release | None:
        """What to feed the job with next, if the job is not held."""
        intake = self.releasable()
        return None if intake is None else intake.release()

    def answers(self, intake: Intake, number: int) -> bool:
        """Whether the commit of this decision is answered, if the job is not held."""
        return intake.keeps_up(number) or self._waits_for_another(intake)

    def pass_to(self, epoch: int) -> None:
        """Release nothing before `epoch` from now on."""
        for intake in self.inputs.values():
            intake.pass_to(epoch)

    def complete_before(self, epoch: int) -> None:
        """The job has completed the epochs before this one."""
        self.complete = epoch
        for intake in self.inputs.values():
            intake.complete_before(epoch)

    def settle_goal(self) -> SettleGoal:
        """What has to come out for all that is decided by now to have come out."""
        decided = {name: intake.decided for name, intake in self.inputs.items()}
        return SettleGoal(decided, all(intake.closed for intake in self.inputs.values()))

    def settle_epoch(self, goal: SettleGoal) -> int | None:
        """The epoch before which an output has to be closed for a goal; None if some of it is not even released."""
        if any(self.inputs[name].released < number for name, number in goal.decided.items()):
            return None
        return EPOCH_MAX if goal.ended else max((intake.epoch for intake in self.inputs.values()), default=0)

    def _releasable(self) -> Iterator[Intake]:
        for intake in self.inputs.values():
            if intake.waiting and (len(intake.under_way) < RELEASED_MAX or self._waits_for_another(intake)):
                yield intake

    def _waits_for_another(self, intake: Intake) -> bool:
        """Whether all that is under way waits for an input that is behind: to feed that, one may have to go on here."""
        behind = min((_reach(one) for one in self.inputs.values() if _open(one)), default=EPOCH_MAX)
        return self.complete >= behind and _reach(intake) < behind + INPUT_AHEAD_MAX


def _open(intake: Intake) -> bool:
    return not intake.closed or bool(intake.waiting)


def _reach(intake: Intake) -> int:
    """The epoch that an input will have come to once all its decisions are released."""
    return intake.epoch + len(intake.waiting)
