"""Brings workers in and lets them go, on the worker that sends a job's commands."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from framework.membership import Members, WorkerId
from framework.progress.order import EPOCH_MAX
from framework.worker.worker import Worker
from operators.control_input import ControlInput
from routing.registry import commanded_on
from routing.stewardship import Ownership, Stewardship

SEE_OFF_S = 0.01
"""How often the last ones are looked after, once the inputs have ended."""


class Steward:
    """Sends, on a control stream, what workers that join or leave need: routing state and bins, or to be rid of them.

    Make it on the one worker that sends commands, and call `act` once per epoch, before the control input advances.
    """

    def __init__(self, worker: Worker, control: ControlInput) -> None:
        self._worker = worker
        self._control = control
        self._stewardship = Stewardship(worker.id)
        self._seen: set[WorkerId] = set(worker.members.workers)
        rescaling = worker.rescaling
        for joined in rescaling.complete:
            self._stewardship.joined(joined)
        rescaling.on_joined.append(self._stewardship.joined)
        rescaling.on_wish.append(self._stewardship.wishes_to_leave)
        rescaling.on_changed.append(self._forget)

    @property
    def busy(self) -> bool:
        """Whether a worker waits for commands, or is on its way in or out."""
        return self._stewardship.busy or self._worker.rescaling.changing

    @property
    def waiting(self) -> Sequence[WorkerId]:
        """The workers that have not received all commands that they need."""
        return self._stewardship.waiting

    def act(self) -> None:
        """Send what is due at the current epoch."""
        if not self._stewardship.busy:
            return
        views = [
            Ownership(
                operator.router.table_at(EPOCH_MAX),
                operator.eligible(),
                operator.complete(),
                _mean(operator.keys_per_bin().values()),
                operator.decided(),
            )
            for operator in commanded_on(self._worker)
            if operator.router.ready
        ]
        due = self._stewardship.act(self._control.time, views)
        if due:
            self._control.send(*due)

    def see_off(self) -> None:
        """Let nobody else in or out, and go on until those that are on their way have what they need.

        Call it once the inputs have ended, and close the control input afterwards.
        """
        self._worker.rescaling.close_turns()
        while self.busy and self._worker.installed_dataflows():
            self.act()
            self._control.advance_to(self._control.time + 1)
            self._worker.step_or_park(SEE_OFF_S)

    def _forget(self, members: Members) -> None:
        known: set[WorkerId] = {*members.workers}
        for worker in self._seen - known:
            self._stewardship.gone(worker)
        self._seen = known


def _mean(keys: Collection[int]) -> float:
    return sum(keys) / len(keys) if keys else 0.0
