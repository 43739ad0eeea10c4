"""Brings workers in and lets them go, on the worker that sends a job's commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from framework.membership.members import Members, WorkerId
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.input.control_input import ControlInput
from routing.migration.controller import Ownership, RescaleController
from routing.registry import commanded_on

LOOK_S = 0.01
"""How often those that are on their way in or out are looked after, while nothing else happens."""


class Steward:
    """Sends, on a control stream, what workers that join or leave need: routing state and bins, or to be rid of them.

    Make it on the one worker that sends commands. It advances the control input, with the inputs (`advance_to`) and
    ahead of them where somebody waits: a joiner holds back its records until it is told who owns what, so whoever waits
    for outputs lets the steward do it (`step_while`).
    """

    def __init__(self, worker: Worker, control: ControlInput) -> None:
        self._worker = worker
        self._control = control
        self._stewardship = RescaleController(worker.id)
        self._seen: set[WorkerId] = set(worker.members.workers)
        membership = worker.membership
        for joined in membership.complete:
            self._stewardship.joined(joined)
        membership.on_joined.append(self._stewardship.joined)
        membership.on_wish.append(self._stewardship.wishes_to_leave)
        membership.on_changed.append(self._forget)

    @property
    def busy(self) -> bool:
        """Whether a worker waits for commands, or is on its way in or out."""
        return self._stewardship.busy or self._worker.membership.changing

    @property
    def waiting(self) -> Sequence[WorkerId]:
        """The workers that have not received all commands that they need."""
        return self._stewardship.waiting

    def act(self) -> bool:
        """Send what is due at the current epoch; whether anything is. Let the control input advance afterwards."""
        if not self._stewardship.busy:
            return False
        views = [
            Ownership(
                operator.table.owners_at(EPOCH_MAX),
                operator.eligible(),
                decided=operator.decided(),
                complete=operator.complete(),
                keys_per_bin=_mean(operator.keys_per_bin().values()),
            )
            for operator in commanded_on(self._worker)
            if operator.table.ready
        ]
        due = self._stewardship.act(self._control.time, views)
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
            self._worker.step_or_park(LOOK_S if self.busy else None)

    def see_off(self) -> None:
        """Let nobody else in or out, and go on until those that are on their way have what they need.

        Call it once the inputs have ended, and close the control input afterwards.
        """
        self._worker.membership.close()
        self.step_while(lambda: self.busy)

    def _forget(self, members: Members) -> None:
        known: set[WorkerId] = {*members.workers}
        for worker in self._seen - known:
            self._stewardship.gone(worker)
        self._seen = known


def _mean(keys: Collection[int]) -> float:
    return sum(keys) / len(keys) if keys else 0.0
