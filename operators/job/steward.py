"""Sends the commands for workers that join and leave; drives `RescaleController` on the worker that sends commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from framework.membership.members import Members, WorkerId
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.input.control_input import ControlInput
from routing.migration.controller import Ownership, RescaleController
from routing.registry import commanded_on

POLL_S = 0.01
"""How often the controller is asked while workers join or leave and nothing else happens."""


class Steward:
    """Sends, on a control stream, what workers that join or leave need: routing state and bins, or to be rid of them.

    Make it on the one worker that sends commands. It advances the control input, with the inputs (`advance_to`) and
    ahead of them while a worker joins or leaves. A joiner holds back its records until it knows who owns what: to wait
    for outputs, call `step_while`, which sends the commands meanwhile.
    """

    def __init__(self, worker: Worker, control: ControlInput) -> None:
        self._worker = worker
        self._control = control
        self._controller = RescaleController(worker.id)
        self._seen: set[WorkerId] = set(worker.members.workers)
        membership = worker.membership
        for joined in membership.complete:
            self._controller.joined(joined)
        membership.on_joined.append(self._controller.joined)
        membership.on_wish.append(self._controller.wishes_to_leave)
        membership.on_changed.append(self._forget)

    @property
    def busy(self) -> bool:
        """Whether a worker waits for commands, or is on its way in or out."""
        return self._controller.busy or self._worker.membership.changing

    @property
    def waiting(self) -> Sequence[WorkerId]:
        """The workers that have not received all commands that they need."""
        return self._controller.waiting

    def act(self) -> bool:
        """Send what is due at the current epoch; whether anything is. Let the control input advance afterwards."""
        if not self._controller.busy:
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
        due = self._controller.act(self._control.time, views)
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
        self.step_while(lambda: self.busy)

    def _forget(self, members: Members) -> None:
        known: set[WorkerId] = {*members.workers}
        for worker in self._seen - known:
            self._controller.gone(worker)
        self._seen = known


def _mean(keys: Collection[int]) -> float:
    return sum(keys) / len(keys) if keys else 0.0
