"""Changes the number of a job's processes: starts some that join, or asks some to leave, and sees them through.

It runs in a thread of the supervisor, so that the job can be asked meanwhile, and says how far it is. Its waits have a
bound: when nothing at all has moved for a while, it ends and tells what it waited for. Nothing is undone then: workers
that are on their way in or out go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from framework.errors import HailerError
from framework.launch.control_protocol import Supervised
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest, JobUnreachable
from operators.control.job_messages import ScaleState
from operators.control.worker_messages import AskRescale, BeginRescale, CheckMayLeave, Leave, RescaleCost
from operators.control.worker_rpc import WorkerRpc

PATIENCE_S = 30.0
"""How long nothing may move before it gives up."""

POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class ProcessChange:
    """How many processes are to join, and which are to leave, in this order."""

    joins: int = 0
    leaves: tuple[int, ...] = ()


def change_to(count: int, present: Sequence[int]) -> ProcessChange:
    """What makes `count` processes of those that are present: the highest leave, and never the first.

    >>> change_to(4, [0, 2]), change_to(1, [0, 2, 5])
    (ProcessChange(joins=2, leaves=()), ProcessChange(joins=0, leaves=(5, 2)))
    """
    assert count >= 1, count
    ordered = sorted(present)
    return ProcessChange(max(0, count - len(ordered)), tuple(reversed(ordered[count:])))


class Scaling:
    """One change of a job's processes."""

    def __init__(self, rpc: WorkerRpc, goal: str, change: ProcessChange) -> None:
        """Check that it can be done; `goal` says what it is, in a word or two."""
        self.goal = goal
        self.finished = threading.Event()
        self._rpc = rpc
        self._joins = change.joins
        self._leavers = [process for number in change.leaves for process in rpc.processes if process.process == number]
        self._joiners: list[Supervised] = []
        self._joined: list[int] = []
        self._left: list[int] = []
        self._log: list[str] = []
        self._waits_for = "it begins"
        self._failure: str | None = None
        self._began_s = time.monotonic()
        self._duration_s: float | None = None
        for process in self._leavers:
            for worker in process.workers:
                rpc.ask(worker, CheckMayLeave())
        plan = rpc.ask(rpc.commanding, BeginRescale())
        if plan is not None and not plan.finished:
            raise BadRequest(f"plan {plan.plan} is under way; wait for it, or end it with `hailer cancel`")
        self._shares, self._silent = rpc.ask_all(AskRescale())
        if rpc.commanding not in self._shares:
            raise JobUnreachable("; ".join(self._silent.values()))
        self._received_before = self._received_bytes()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="scaling", daemon=True).start()

    def state(self) -> ScaleState:
        """How far it is."""
        cost = self._cost()
        return ScaleState(
            goal=self.goal,
            finished=self.finished.is_set(),
            failure=self._failure,
            log=tuple(self._log),
            waits_for=self._waits_for,
            joined=tuple(self._joined),
            left=tuple(self._left),
            bins_moved=cost.bins_moved,
            state_bytes=self._received_bytes() - self._received_before,
            stall_s_max=cost.stall_s_max,
            duration_s=self._duration_s or time.monotonic() - self._began_s,
        )

    def _run(self) -> None:
        for part in (self._bring_in, self._fill, self._await_leavers):
            try:
                part()
            except HailerError as error:
                self._failure = self._failure or str(error)
            except Exception as error:  # ours; the job goes on, and whoever asked is told
                self._failure = f"this is a mistake in Hailer: {error!r}"
        self._duration_s = time.monotonic() - self._began_s
        with suppress(HailerError):  # of one request, workers answer at different moments: some before the last bins
            self._refresh()
        self.finished.set()

    def _bring_in(self) -> None:
        """All at once: they wait their turn. One that fails does not keep the others out."""
        for _ in range(self._joins):
            joiner = self._rpc.spawn()
            self._joiners.append(joiner)
            self._log.append(f"process {joiner.process} starts")
        for joiner in self._joiners:
            self._wait(partial(_has_arrived, joiner), partial(_phase, joiner))
            if joiner.member:
                self._joined.append(joiner.process)
                self._log.append(f"process {joiner.process} has joined: {_phases(joiner)}")
            else:
                self._failure = f"process {joiner.process} did not join: {joiner.failure or 'it ended'}"

    def _fill(self) -> None:
        joined = [worker for joiner in self._joiners if joiner.member for worker in joiner.workers]
        if joined:
            self._wait(lambda: self._have_share(joined), lambda: self._lacking(joined))

    def _await_leavers(self) -> None:
        for leaver in self._leavers:
            for worker in leaver.workers:
                self._rpc.ask(worker, Leave())
            self._log.append(f"process {leaver.process} is asked to leave, with {_workers(leaver)}")
        for leaver in self._leavers:
            self._wait(leaver.ended.is_set, partial(self._objection, leaver))
            if leaver.failure is not None:
                raise JobUnreachable(f"process {leaver.process} failed while it left: {leaver.failure}")
            self._left.append(leaver.process)
            self._log.append(f"process {leaver.process} has left")

    # Waiting

    def _wait(self, until: Callable[[], bool], waits_for: Callable[[], str]) -> None:
        mark, moved_s = self._mark(), time.monotonic()
        while True:
            self._refresh()
            if until():
                return
            self._waits_for = waits_for()
            if self._rpc.first.ended.is_set():
                raise JobUnreachable(f"the job has ended meanwhile; it waited: {self._waits_for}")
            if self._mark() != mark:
                mark, moved_s = self._mark(), time.monotonic()
            elif time.monotonic() - moved_s > PATIENCE_S:
                raise JobUnreachable(
                    f"nothing has moved for {PATIENCE_S:g} s: {'; '.join([self._waits_for, *self._silent.values()])}; "
                    f"what has begun goes on, and `hailer status` shows it"
                )
            time.sleep(POLL_S)

    def _refresh(self) -> None:
        shares, self._silent = self._rpc.ask_all(AskRescale())
        for worker, share in shares.items():
            last = self._shares.get(worker, share)  # an operator that has ended counts no more
            received_bytes = max(share.received_bytes, last.received_bytes)
            self._shares[worker] = replace(share, received_bytes=received_bytes)

    def _mark(self) -> object:
        """Changes with everything that is progress."""
        phases = [len(joiner.phases) + len(joiner.joined) for joiner in self._joiners]
        ended = [process.ended.is_set() for process in (*self._joiners, *self._leavers)]
        objections = [share.objection for share in self._shares.values()]
        cost = self._cost()
        return phases, ended, objections, cost.bins_moved, cost.waiting, self._received_bytes()

    # What it sees

    def _cost(self) -> RescaleCost:
        cost = self._shares[self._rpc.commanding].cost
        assert cost is not None, "the commanding worker began to meter when it was told to"
        return cost

    def _received_bytes(self) -> int:
        """All state that has come to workers since the job began: those that have left received no more."""
        return sum(share.received_bytes for share in self._shares.values())

    def _have_share(self, workers: Sequence[WorkerId]) -> bool:
        return self._cost().settled and not self._unserved(workers)

    def _unserved(self, workers: Sequence[WorkerId]) -> list[WorkerId]:
        cost = self._cost()
        return [worker for worker in workers if worker not in cost.joined or worker in cost.waiting]

    def _lacking(self, workers: Sequence[WorkerId]) -> str:
        unserved = self._unserved(workers)
        if unserved:
            return f"worker {unserved[0]} waits for its share of bins, which come as the job's inputs go on"
        return "the last bins are on their way"

    def _objection(self, leaver: Supervised) -> str:
        for worker in leaver.workers:
            share = self._shares.get(worker)
            if worker not in self._silent and share is not None and share.objection is not None:
                return f"worker {worker} cannot leave yet: {share.objection}"
        return f"process {leaver.process} waits for its turn, or parts from the others"


def _phase(joiner: Supervised) -> str:
    if not joiner.phases:
        return f"process {joiner.process} is starting"
    worker, phase, _ = joiner.phases[-1]
    return f"worker {worker} joins, and has come through: {phase}"


def _has_arrived(joiner: Supervised) -> bool:
    return joiner.member or joiner.ended.is_set()


def _phases(joiner: Supervised) -> str:
    """How long its workers took for each part of their joins."""
    told = []
    for worker in joiner.workers:
        spent = {phase: 1000 * duration_s for one, phase, duration_s in joiner.phases if one == worker}
        parts = ", ".join(f"{phase} {part_ms:.0f}" for phase, part_ms in spent.items())
        told.append(f"worker {worker} after {sum(spent.values()):.0f} ms ({parts})")
    return ", ".join(told)


def _workers(process: Supervised) -> str:
    if len(process.workers) == 1:
        return f"worker {process.workers[0]}"
    return f"all its workers, {process.workers[0]} to {process.workers[-1]}"
