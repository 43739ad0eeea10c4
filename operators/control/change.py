"""Watches a goal from the supervisor: asks the workers how it is doing, and puts together what they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from framework.errors import HailerError
from framework.membership.members import WorkerId
from operators.admin.errors import JobUnreachable
from operators.control.job_messages import ChangeState
from operators.control.worker_messages import AskGoal, GoalShare
from operators.control.worker_rpc import WorkerRpc
from routing.migration.goals import GoalState, Pace

PATIENCE_S = 30.0
"""How long nothing may move before it is given up."""

POLL_S = 0.02


class Change:
    """One goal of a job, and what has become of it. It goes on in the workers if nobody watches."""

    def __init__(self, rpc: WorkerRpc, text: str, pace: Pace) -> None:
        self.text = text
        self._pace = pace
        self.finished = threading.Event()
        self._rpc = rpc
        self._goal_number: int | None = None
        self._goal: GoalState | None = None
        self._failure: str | None = None
        self._superseded = False
        self._began_s = time.monotonic()
        self._duration_s: float | None = None
        self._deciding = threading.Lock()
        """Held for what must not be done any more once something else is wanted."""
        self._shares, self._silent = rpc.ask_all(AskGoal(-1))
        self._received_before = self._received_bytes()
        if rpc.commanding not in self._shares:
            raise JobUnreachable("; ".join(self._silent.values()))

    def begin(self, number: int | None) -> None:
        """Watch the goal of this number, in a thread; None: there are no bins to move."""
        self._goal_number = number
        threading.Thread(target=self._run, name="change", daemon=True).start()

    def supersede(self, by: str) -> None:
        """Something else is wanted: watch no more, unless it is over."""
        with self._deciding:
            if self._duration_s is None:
                self._superseded = True
                self._failure = self._failure or f"superseded by {by}"

    @property
    def settled(self) -> bool:
        """Whether it is over, and nothing of it goes on in the workers."""
        return self.finished.is_set() and self._failure is None

    def state(self) -> ChangeState:
        """How it is doing."""
        goal = self._goal
        return ChangeState(
            text=self.text,
            finished=self.finished.is_set(),
            failure=self._failure,
            cancelled=goal is not None and goal.status == "cancelled",
            waits_for=self._waits_for(),
            bins_moved=goal.bins_moved if goal else 0,
            bins=goal.bins if goal else 0,
            state_bytes=self._received_bytes() - self._received_before,
            stall_s_max=goal.stall_s_max if goal else 0.0,
            duration_s=self._duration_s or time.monotonic() - self._began_s,
        )

    # In the thread

    def _run(self) -> None:
        try:
            self._carry_through()
        except HailerError as error:
            self._failure = self._failure or str(error)
        except Exception as error:  # ours; the job goes on, and whoever asked is told
            self._failure = f"this is a mistake in Hailer: {error!r}"
        with self._deciding:
            self._duration_s = time.monotonic() - self._began_s
        with suppress(HailerError):  # of one request, workers answer at different moments: some before the last bins
            self._refresh()
        self.finished.set()

    def _carry_through(self) -> None:
        self._wait(self._goal_ended)
        self._check_goal()

    def _check_wanted(self) -> None:
        if self._failure is not None:
            raise JobUnreachable(self._failure)

    def _goal_ended(self) -> bool:
        return self._goal_number is None or (self._goal is not None and self._goal.finished)

    def _check_goal(self) -> None:
        goal = self._goal
        if goal is not None and goal.status in ("failed", "superseded"):
            raise JobUnreachable(goal.reason)

    def _wait(self, until: Callable[[], bool]) -> None:
        patience_s = PATIENCE_S + self._pace.gap_s
        mark, moved_s = self._mark(), time.monotonic()
        while self._failure is None:
            self._refresh()
            if until():
                return
            if self._rpc.first.ended.is_set():
                raise JobUnreachable(f"the job has ended meanwhile; it waited: {self._waits_for()}")
            if self._mark() != mark:
                mark, moved_s = self._mark(), time.monotonic()
            elif time.monotonic() - moved_s > patience_s:
                why = "; ".join([self._waits_for(), *self._silent.values()])
                raise JobUnreachable(
                    f"nothing has moved for {patience_s:g} s: {why}; what has begun goes on: see `hailer status`"
                )
            time.sleep(POLL_S)
        self._check_wanted()

    def _refresh(self) -> None:
        shares, self._silent = self._rpc.ask_all(AskGoal(-1 if self._goal_number is None else self._goal_number))
        for worker, share in shares.items():
            last = self._shares.get(worker, share)  # an operator that has ended counts no more
            received_bytes = max(share.received_bytes, last.received_bytes)
            self._shares[worker] = replace(share, received_bytes=received_bytes)
        commanding = shares.get(self._rpc.commanding)
        if commanding is not None and commanding.goal is not None:
            self._goal = commanding.goal

    # What it sees

    def _waits_for(self) -> str:
        return self._goal.reason if self._goal is not None else "it begins"

    def _mark(self) -> object:
        """Changes with everything that is progress."""
        goal = self._goal
        return self._received_bytes(), goal and (goal.bins_moved, goal.bins, goal.reason, goal.status)

    def _received_bytes(self) -> int:
        """All state that has come to workers since the job began: those that have left received no more."""
        return sum(share.received_bytes for share in self._shares.values())

    def _share(self, worker: WorkerId) -> GoalShare | None:
        return self._shares.get(worker) if worker not in self._silent else None
