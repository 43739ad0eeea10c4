"""Changes the number of a job's processes: starts some that join, or empties some and lets them leave.

It runs in a thread of the supervisor, so that the job can be asked meanwhile, and says how far it is. Its waits have a
bound: when nothing at all has moved for a while, it ends and tells what it waited for. Nothing is undone then: workers
that are on their way in or out go on. When something else is wanted meanwhile, another takes over from where this one
is: processes that are starting join, and one that has not yet been told to leave stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from framework.errors import HailerError, NoAnswer
from framework.launch.control_protocol import Supervised
from framework.membership.members import WorkerId
from operators.admin.errors import JobUnreachable
from operators.control.change import Change
from operators.control.job_messages import ChangeState
from operators.control.worker_messages import CheckMayLeave, CheckRescalable, Leave, NotComing, StartResize
from operators.control.worker_rpc import WorkerRpc
from routing.migration.goals import Pace


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


class Scaling(Change):
    """One change of a job's processes."""

    def __init__(
        self,
        rpc: WorkerRpc,
        text: str,
        change: ProcessChange,
        pace: Pace,
        check_movable: Callable[[], None] = lambda: None,
        going: Collection[int] = (),
    ) -> None:
        """Check that it can be done; `text` says what it is, in a word or two, and `going` which processes leave.

        `check_movable`, which may take a while, raises if a bin cannot leave its worker.
        """
        super().__init__(rpc, text, pace)
        self._check_movable = check_movable
        self.change = change
        self._leavers = [process for number in change.leaves for process in rpc.processes if process.process == number]
        self._joiners = [process for process in rpc.processes if not process.member]
        self._going = set(going)
        """Those that were told to leave, for good, be it by another before this."""
        self._joined: list[int] = []
        self._left: list[int] = []
        self._log: list[tuple[str, str]] = []
        for process in self._leavers:
            for worker in process.workers if process.member else ():
                rpc.ask(worker, CheckMayLeave())
        self.unmoved = rpc.ask(rpc.commanding, CheckRescalable()).operators

    @property
    def leaving_for_good(self) -> frozenset[int]:
        """The processes that go, whatever else is wanted."""
        with self._deciding:
            return frozenset(self._going)

    @property
    def still_to_leave(self) -> frozenset[int]:
        """The processes that are to leave and have not been told, unless it is over."""
        with self._deciding:
            if self.finished.is_set() and not self._superseded:
                return frozenset()
            return frozenset(each.process for each in self._leavers if not each.ended.is_set()) - self._going

    def withdraw(self) -> bool:
        """Let it end while it has no goal that could be cancelled; whether that is so. Who has started, joins."""
        with self._deciding:
            early = self._goal_number is None and self._duration_s is None
            if early:
                self._failure = self._failure or "cancelled; processes that have started join"
            return early

    def start(self) -> None:
        """Begin."""
        self.begin(None)

    def state(self) -> ChangeState:
        return replace(
            super().state(),
            joined=tuple(sorted(self._joined)),
            left=tuple(sorted(self._left)),
            log=tuple(line for line, _ in self._log),
            details=tuple(detail for _, detail in self._log),
        )

    def _carry_through(self) -> None:
        self._check_movable()
        for _ in range(self.change.joins):
            with self._deciding:
                self._check_wanted()
                joiner = self._rpc.spawn()
            self._joiners.append(joiner)
            self._say(f"process {joiner.process} starts")
        resize = StartResize(self.text, _workers_of(self._joiners), _workers_of(self._leavers), self._pace)
        with self._deciding:
            self._check_wanted()
            self._goal_number = self._rpc.ask(self._rpc.commanding, resize)
        self._await_joiners()
        self._wait(self._goal_ended)
        self._check_goal()
        if self._goal is None or self._goal.status != "cancelled":
            self._see_leavers_off()

    def _await_joiners(self) -> None:
        """All at once: they wait their turn. One that fails does not keep the others out."""
        failures: list[str] = []
        waiting = list(self._joiners)

        def arrived() -> bool:
            for joiner in list(waiting):
                if joiner.member:
                    self._joined.append(joiner.process)
                    self._say(f"process {joiner.process} has joined", _phases(joiner))
                elif joiner.ended.is_set() and self._wait_no_more_for(joiner):
                    if joiner not in self._leavers:
                        failures.append(f"process {joiner.process} did not join: {joiner.failure or 'it ended'}")
                else:
                    continue
                waiting.remove(joiner)
            return not waiting

        try:
            self._wait(arrived)
        except JobUnreachable:
            if self._failure is None:  # too long: bins move without them, and to them if they come after all
                for joiner in waiting:
                    self._wait_no_more_for(joiner)
            raise
        if failures:
            self._wait(self._goal_ended)
            raise JobUnreachable("; ".join(failures))

    def _wait_no_more_for(self, joiner: Supervised) -> bool:
        """Have the goal wait no more for a process; whether that was heard."""
        try:
            for worker in joiner.workers if self._goal_number is not None else ():
                self._rpc.ask(self._rpc.commanding, NotComing(worker))
        except NoAnswer:
            return False
        return True

    def _see_leavers_off(self) -> None:
        leavers = [leaver for leaver in self._leavers if not leaver.ended.is_set()]  # some never came to join
        with self._deciding:
            self._check_wanted()
            self._going.update(leaver.process for leaver in leavers)
        for index, leaver in enumerate(leavers):
            try:
                for worker in leaver.workers:
                    self._rpc.ask(worker, Leave())
            except HailerError:
                self._going.difference_update(untold.process for untold in leavers[index:])
                raise
            self._say(f"process {leaver.process} is asked to leave, with {_names(leaver)}")
        for leaver in leavers:
            self._wait(leaver.ended.is_set)
            if leaver.failure is not None:
                raise JobUnreachable(f"process {leaver.process} failed while it left: {leaver.failure}")
            self._left.append(leaver.process)
            self._say(f"process {leaver.process} has left")

    def _say(self, line: str, detail: str = "") -> None:
        self._log.append((line, detail))

    # What it sees

    def _mark(self) -> object:
        phases = [len(joiner.phases) + len(joiner.joined) for joiner in self._joiners]
        ended = [process.ended.is_set() for process in (*self._joiners, *self._leavers)]
        return phases, ended, super()._mark()

    def _waits_for(self) -> str:
        starting = [joiner for joiner in self._joiners if not (joiner.member or joiner.ended.is_set())]
        if starting:
            return f"process {starting[0].process} {'joins' if starting[0].phases else 'is starting'}"
        leaving = [leaver for leaver in self._leavers if leaver.process in self._going and not leaver.ended.is_set()]
        if leaving:
            return self._objection(leaving[0])
        return super()._waits_for()

    def _objection(self, leaver: Supervised) -> str:
        for worker in leaver.workers:
            share = self._share(worker)
            if share is not None and share.objection is not None:
                return f"worker {worker} cannot leave yet: {share.objection}"
        return f"process {leaver.process} waits for its turn, or parts from the others"


def _workers_of(processes: Iterable[Supervised]) -> tuple[WorkerId, ...]:
    return tuple(worker for process in processes for worker in process.workers)


def _phases(joiner: Supervised) -> str:
    """How long its workers took for each part of their joins."""
    told = []
    for worker in joiner.workers:
        spent = {phase: 1000 * duration_s for one, phase, duration_s in joiner.phases if one == worker}
        parts = ", ".join(f"{phase} {part_ms:.0f}" for phase, part_ms in spent.items())
        told.append(f"worker {worker} after {sum(spent.values()):.0f} ms ({parts})")
    return ", ".join(told)


def _names(process: Supervised) -> str:
    if len(process.workers) == 1:
        return f"worker {process.workers[0]}"
    return f"all its workers, {process.workers[0]} to {process.workers[-1]}"
