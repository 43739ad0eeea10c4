"""Moves bins: shows the operators to a `MigrationController`, and sends the commands that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.membership.members import Members, WorkerId
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.input.control_input import ControlInput
from routing.load import WeighedBins, add_up
from routing.migration.controller import GroupView, MigrationController
from routing.migration.goals import Goal, GoalState, Pace
from routing.registry import BinnedOperator, groups_on

POLL_S = 0.02
"""How often the controller is asked while bins move and no operator has made progress."""


class Steward:
    """Sends, on a control stream, what workers that join or leave need, and what moves bins for whoever asks.

    Make it on the one worker that sends commands. It advances the control input, with the inputs (`advance_to`) and
    ahead of them while bins move. A joiner holds back its records until it knows who owns what: to wait for outputs,
    call `step_while`, which sends the commands meanwhile.
    """

    def __init__(self, worker: Worker, control: ControlInput) -> None:
        self._worker = worker
        self._control = control
        self._clock = worker.events.clock
        self.controller = MigrationController(worker.id)
        """Decides what is sent."""
        self._seen: set[WorkerId] = set(worker.members.workers)
        self._watched: set[str] = set()
        self._ticking = False
        self._tick_at_s: float | None = None
        """When time will have passed that the controller waits for."""
        membership = worker.membership
        for joined in membership.complete & {*worker.members.workers}:
            self.controller.joined(joined)
        membership.on_joined.append(self._joined)
        membership.on_wish.append(self._wishes_to_leave)
        membership.on_changed.append(self._forget)

    @property
    def busy(self) -> bool:
        """Whether bins are to move or a worker waits for commands, or is on its way in or out."""
        return self.controller.busy or self._worker.membership.changing

    @property
    def needs_epochs(self) -> bool:
        """Whether that takes epochs: not while only time has to pass, or a process to start."""
        return self._worker.membership.changing or (self.controller.busy and not self.controller.rests)

    @property
    def waiting(self) -> Sequence[WorkerId]:
        """The workers that have not received all commands that they need."""
        return self.controller.waiting

    # Goals

    def start(self, goal: Goal, text: str, pace: Pace | None = None) -> int:
        """Take a goal, called `text`; its number. Raises `GoalRefused`."""
        joined = {*self._worker.founders, *self._worker.membership.complete}
        number = self.controller.start(goal, text, pace or Pace(), self._clock(), self._views(), joined)
        self._tick()
        return number

    def cancel(self) -> list[GoalState]:
        """Send no more steps for any goal; one that is under way completes. The goals that this has ended."""
        return self.controller.cancel(self._clock())

    def not_coming(self, worker: WorkerId) -> None:
        """A worker that a goal waits for will not join."""
        self.controller.not_coming(worker)
        self._tick()

    def goals(self) -> list[GoalState]:
        """The goals, the newest last; as they are now."""
        return [tracked.state for _, tracked in sorted(self.controller.book.goals.items())]

    # Commands

    def act(self) -> bool:
        """Send what is due at the current epoch; whether anything is, or was held back. Advance afterwards."""
        if self._control.closed:
            return False
        if self._control.owes:
            return True
        if not self.controller.busy:
            return False
        due = self.controller.act(self._clock(), self._control.time, self._views(), moves=not self._control.holds)
        if due:
            self._control.send(*due)
        return bool(due)

    def advance_to(self, epoch: int) -> None:
        """Send what is due, and advance the control input to `epoch`, unless it is past that."""
        following = self._control.time + self.act()
        self._control.advance_to(max(epoch, following))

    def step_while(self, condition: Callable[[], bool]) -> None:
        """Step the worker for as long as `condition` holds and any dataflow is left, and send what is due meanwhile."""
        while condition() and self._worker.installed_dataflows():
            if self.busy:
                self.advance_to(self._control.time)
            self._worker.step_or_park(POLL_S if self.busy else None)

    def see_off(self) -> None:
        """Admit no further joins and leaves, and step until those under way have what they need.

        Call it once the inputs have ended, and close the control input afterwards.
        """
        self._worker.membership.close()
        self.controller.close(self._clock())
        if self.busy and not self._control.closed:  # a leaver's records of the last epoch wait for its commands
            self._control.advance_to(self._control.time + 1)
        self.step_while(lambda: self.busy)

    # What happens

    def _tick(self) -> None:
        """Look again between this step and the next."""
        if not self._ticking:
            self._ticking = True
            self._worker.after(0.0, self._act_ahead)

    def _tick_later(self, at_s: float) -> None:
        """Look again at `at_s`, or before."""
        if self._tick_at_s is None or at_s < self._tick_at_s:
            self._tick_at_s = at_s
            self._worker.after(at_s - self._clock(), self._time_has_passed)

    def _time_has_passed(self) -> None:
        self._tick_at_s = None
        self._act_ahead()

    def _act_ahead(self) -> None:
        """Send what is due without waiting for the inputs: an operator has made progress, or time has passed."""
        self._ticking = False
        if not self.controller.busy or self._control.closed:
            return
        if self.act():
            self._control.advance_to(self._control.time + 1)
        due_at_s = self.controller.due_at_s
        if due_at_s is not None and due_at_s > self._clock():
            self._tick_later(due_at_s)

    def _joined(self, worker: WorkerId) -> None:
        self.controller.joined(worker)
        self._tick()

    def _wishes_to_leave(self, worker: WorkerId) -> None:
        self.controller.wishes_to_leave(worker)
        self._tick()

    def _forget(self, members: Members) -> None:
        known: set[WorkerId] = {*members.workers}
        for worker in self._seen - known:
            self.controller.gone(worker)
        self._seen = known

    def _progressed(self) -> None:
        if self.controller.busy:
            self._tick()

    # What is shown

    def _views(self) -> list[GroupView]:
        groups = groups_on(self._worker)
        for operators in groups.values():
            for operator in operators:
                if operator.path not in self._watched:
                    self._watched.add(operator.path)
                    operator.on_progress(self._progressed)
        return [
            _view(name, operators) for name, operators in groups.items() if all(one.table.ready for one in operators)
        ]


def _view(name: str, operators: Sequence[BinnedOperator]) -> GroupView:
    last = min(operators, key=lambda operator: operator.decided())
    told = [operator.weighed() for operator in operators]
    weighed = [one for one in told if one is not None]
    return GroupView(
        name,
        last.table.owners_at(EPOCH_MAX),
        frozenset.intersection(*(operator.eligible() for operator in operators)),
        decided=last.decided(),
        complete=min(operator.complete() for operator in operators),
        weighed=_together(weighed) if len(weighed) == len(operators) else None,
        heard=min(operator.heard() for operator in operators),
    )


def _together(weighed: Sequence[WeighedBins]) -> WeighedBins:
    return WeighedBins(min(one.time for one in weighed), add_up(one.weights for one in weighed))
