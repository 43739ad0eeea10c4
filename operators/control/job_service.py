"""Answers for a whole job: asks its workers, puts together what they say, and passes commands to who sends them.

It runs in the process that supervises the job, behind the admin endpoint. It holds no state of the job itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count
from typing import Any

from framework.errors import NoAnswer, RequestFailed
from framework.launch.config import PROCESSES_MAX
from framework.launch.control_protocol import Processes
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest, JobEnded, JobUnreachable
from operators.admin.json_codec import from_json
from operators.broker.address import BrokerAddress
from operators.control.change import Change
from operators.control.job_messages import (
    NOTHING,
    Answer,
    ChangeState,
    Explanation,
    JobProgress,
    JobStatus,
    Outcome,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.scaling import ProcessChange, Scaling, change_to
from operators.control.summary import (
    assign_plans,
    bin_tables,
    late_records,
    least_blockers,
    least_frontier,
    movable,
    operator_rows,
    spread_plans,
)
from operators.control.worker_messages import (
    AskBins,
    AskBroker,
    AskExplanation,
    AskObstacles,
    AskProgress,
    AskStatus,
    BlockerState,
    CancelGoals,
    CheckMayLeave,
    CheckRescalable,
    EndInputs,
    Fed,
    MovableBins,
    StartAssign,
    StartRebalance,
    WorkerStatus,
)
from operators.control.worker_rpc import WorkerRpc
from operators.control.worker_status import LISTEN_S
from routing.bins import BinId
from routing.migration.goals import GoalState, Pace

SAMPLE_S = 0.5
"""How long rates are measured, if nobody has asked just before."""

OPEN_S = 20.0
"""How long who wants to feed or read a job waits for it to begin."""

OPEN_POLL_S = 0.05

CHANGES_KEPT = 64
"""How many changes can be asked for."""

BUSY_S = 10.0
"""How long workers may be busy before a request that needs all of them is given up."""


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """How bins move when something is changed."""

    pace: Pace = field(default_factory=Pace)
    group: str | None = None
    """Which operators, if those of the job are of several groups."""
    dry_run: bool = False
    """Only show what would move."""


USUAL = ChangeOptions()


class JobService:
    """One running job."""

    def __init__(self, job: str, processes: Processes) -> None:
        self.job = job
        self._began_s = time.monotonic()
        self._rpc = WorkerRpc(processes)
        self._changing = threading.Lock()
        self._scaling: Scaling | None = None
        self._moving: Change | None = None
        self._changes: dict[int, Change] = {}
        self._numbers = count()
        self._sampling = threading.Lock()
        self._sample: tuple[float, dict[WorkerId, WorkerStatus]] = (float("-inf"), {})
        self._broker: BrokerAddress | None = None

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes as of now, joiners included."""
        return [process.process for process in self._rpc.processes]

    @property
    def ending(self) -> bool:
        """Whether the job is about to end: one of its processes has, without having left."""
        return any(process.ended.is_set() for process in self._rpc.processes)

    @property
    def running_s(self) -> float:
        """How long the job has been running."""
        return time.monotonic() - self._began_s

    @property
    def fed(self) -> Fed:
        """What the job was fed with, once the process that feeds it is done."""
        return from_json(Fed, self._rpc.first.done)

    # What can be asked

    def progress(self) -> JobProgress:
        """How far the job is; cheap."""
        answers, silent = self._rpc.ask_all(AskProgress())
        return JobProgress(
            workers=len(self._rpc.workers),
            running_s=self.running_s,
            frontier=least_frontier(answer.frontier for answer in answers.values()),
            goal=next((answer.goal for answer in answers.values() if answer.goal), None),
            silent=tuple(sorted(silent)),
        )

    def status(self) -> JobStatus:
        """Workers, operators, bins, the plan."""
        with self._sampling:
            before_s, before = self._sample
            busy: dict[WorkerId, str] = {}
            if time.monotonic() - before_s > LISTEN_S / 2:
                before, busy = self._rpc.ask_all(AskStatus())
                time.sleep(SAMPLE_S)
            answers, silent = self._rpc.ask_all(AskStatus(), but=busy)
            self._sample = time.monotonic(), answers
        return JobStatus(
            job=self.job,
            pid=os.getpid(),
            running_s=self.running_s,
            frontier=least_frontier(answer.frontier for answer in answers.values()),
            workers=tuple(self._worker(id_, answers.get(id_), silent.get(id_)) for id_ in self._rpc.workers),
            operators=operator_rows(before, answers),
            bins=bin_tables(answers.values()),
            late=late_records(answers.values()),
            held=next((answer.held for answer in answers.values() if answer.held is not None), None),
            moving=self._moving.state() if self._moving is not None else None,
            scale=self._scaling.state() if self._scaling is not None else None,
        )

    def explain(self, operator: str | None) -> Explanation:
        """What holds the frontier of an operator; of the last one, if none is named."""
        answers, silent = self._rpc.ask_all(AskExplanation(operator))
        if not answers:
            raise JobUnreachable("; ".join(silent.values()))
        first = next(iter(answers.values()))
        held = least_blockers([_of(id_, blocker) for id_, answer in answers.items() for blocker in answer.held])
        explained = {blocker.arrives for blocker in held}
        return Explanation(
            path=first.path,
            name=first.name,
            frontier=first.frontier,
            held=held,
            under_way=() if explained & set(first.frontier) else least_blockers(first.heard),
            silent=silent,
        )

    def change(self, number: int) -> ChangeState:
        """How a change is doing."""
        self._check_going_on()
        if number not in self._changes:
            raise BadRequest(f"there is no change {number} of this job, or it is long over")
        return self._changes[number].state()

    def broker(self) -> BrokerAddress:
        """Where the job is fed and read from outside; its worker is asked until it is, since it may be busy later."""
        deadline_s = time.monotonic() + OPEN_S
        while self._broker is None:
            try:
                self._broker = self._rpc.ask(self._rpc.commanding, AskBroker())
            except NoAnswer:
                if time.monotonic() > deadline_s:
                    raise
            if self._broker is None and time.monotonic() > deadline_s:
                raise JobUnreachable(f"the job has not begun within {OPEN_S:g} s")
            time.sleep(OPEN_POLL_S)
        return self._broker

    # Bins

    def move(self, bins: Sequence[int], to: int, options: ChangeOptions = USUAL) -> Answer:
        """Give some bins to a worker."""
        owners = {BinId(bin_id): self._rpc.check(to) for bin_id in bins}
        text = f"move of {len(owners)} bin{'s' * (len(owners) != 1)} to worker {to}"
        return self._assign(text, owners, options, complete=False)

    def map(self, owners: Sequence[int], options: ChangeOptions = USUAL) -> Answer:
        """Give every bin the owner that is named for it."""
        wanted = {BinId(index): self._rpc.check(owner) for index, owner in enumerate(owners)}
        return self._assign("map", wanted, options, complete=True)

    def rebalance(self, options: ChangeOptions = USUAL) -> Answer:
        """Spread the bins over the workers by what is in them, and comes to them."""
        if options.dry_run:
            return Answer(plans=spread_plans(self._bins(), options.pace))
        self._check_movable(lambda bin_id, owner: True)
        return self._move("rebalance", StartRebalance("rebalance", options.pace))

    def move_to(self, bins: Sequence[int], worker: int) -> Outcome:
        """Give some bins to a worker, and wait until it has them; raises `ChangeFailed` if that does not come about."""
        self.move(bins, worker)
        return self._outcome(self._moving)

    def cancel(self) -> tuple[GoalState, ...]:
        """Let whatever moves bins end after its current step, and a scale whose processes are about to start."""
        withdrawn = self._scaling is not None and self._scaling.withdraw()
        try:
            return self._rpc.ask(self._rpc.commanding, CancelGoals())
        except RequestFailed:  # no bins are being moved
            if withdrawn:
                return ()
            raise

    # Processes

    def scale(self, processes: int, options: ChangeOptions = USUAL) -> Answer:
        """Make the job have this number of processes."""
        if not 1 <= processes <= PROCESSES_MAX:
            raise BadRequest(
                f"a job has between 1 process, which feeds it, and {PROCESSES_MAX}, not {processes}; "
                f"to end it, stop `hailer run`"
            )
        with self._changing:
            return self._change(f"scale to {processes}", lambda: change_to(processes, self._staying()), options)

    def scale_to(self, processes: int) -> Outcome:
        """The same, and wait until it is done; raises `ChangeFailed` if that does not come about."""
        if self.scale(processes).number is None:
            return NOTHING
        return self._outcome(self._scaling)

    def leave(self, worker: int, options: ChangeOptions = USUAL) -> Answer:
        """Let a worker leave, with all others of its process."""
        process = self._rpc.workers[self._rpc.check(worker)].process
        with self._changing:

            def wanted() -> ProcessChange:
                leaving = {process, *(self._scaling.still_to_leave if self._scaling is not None else ())}
                return ProcessChange(leaves=tuple(sorted(leaving, reverse=True)))

            return self._change(f"leave of worker {worker}", wanted, options)

    def finish(self) -> None:
        """End the inputs that others feed."""
        self._rpc.ask(self._rpc.commanding, EndInputs())

    # How

    def _check_going_on(self) -> None:
        """Raise if the job is about to end: its report is what a command tells then, and not how far that had come."""
        if self.ending:
            raise JobEnded("the job is about to end")

    def _going(self) -> frozenset[int]:
        return self._scaling.leaving_for_good if self._scaling is not None else frozenset()

    def _staying(self) -> list[int]:
        going = self._going()
        return [process for process in self.processes if process not in going]

    def _change(self, text: str, wanted: Callable[[], ProcessChange], options: ChangeOptions) -> Answer:
        change = wanted()
        unmoved = self._rpc.ask(self._rpc.commanding, CheckRescalable()).operators if change.joins else ()
        if options.dry_run:
            for worker in sorted(self._leaving(change)):
                self._rpc.ask(worker, CheckMayLeave())
            plans = spread_plans(self._bins(), options.pace, self._rpc.coming(change.joins), self._leaving(change))
            return Answer(None, change.joins, change.leaves, unmoved, plans)
        if not (change.joins or change.leaves) and (self._scaling is None or self._scaling.settled):
            return Answer(unmoved=unmoved)
        scaling = self._scale(text, change, options)
        if self._scaling is not None:
            self._scaling.supersede(text)
            if (change := wanted()) != scaling.change:  # it has told some to leave meanwhile
                scaling = self._scale(text, change, options)
        self._scaling = scaling
        scaling.start()
        return Answer(self._enter(scaling), change.joins, change.leaves, unmoved)

    def _scale(self, text: str, change: ProcessChange, options: ChangeOptions) -> Scaling:
        leaving = self._leaving(change)
        check_movable = partial(self._check_movable, lambda bin_id, owner: bool(change.joins) or owner in leaving)
        return Scaling(self._rpc, text, change, options.pace, check_movable, self._going())

    def _leaving(self, change: ProcessChange) -> set[WorkerId]:
        return {worker for worker, process in self._rpc.workers.items() if process.process in change.leaves}

    def _assign(self, text: str, owners: dict[BinId, WorkerId], options: ChangeOptions, *, complete: bool) -> Answer:
        if options.dry_run:
            return Answer(plans=assign_plans(self._bins(), owners, options.group, options.pace, complete=complete))
        self._check_movable(lambda bin_id, owner: owners.get(bin_id, owner) != owner, options.group)
        return self._move(text, StartAssign(text, options.group, owners, complete, options.pace))

    def _move(self, text: str, request: StartAssign | StartRebalance) -> Answer:
        change = Change(self._rpc, text, request.pace)
        change.begin(self._rpc.ask(self._rpc.commanding, request))
        self._moving = change
        return Answer(self._enter(change))

    def _enter(self, change: Change) -> int:
        number = next(self._numbers)
        self._changes[number] = change
        self._changes.pop(number - CHANGES_KEPT, None)
        return number

    def _check_movable(self, moves: Callable[[BinId, WorkerId], bool], group: str | None = None) -> None:
        """Refuse a command if a bin holds what cannot leave its worker: nothing has been sent, so nothing is lost.

        Asked about are the bins of a group, or of all, which a command `moves` away from their owners.
        """
        left = self._moving_bins(moves, group)
        deadline_s = time.monotonic() + BUSY_S
        while left:
            for worker, some in list(left.items()):
                try:
                    answer = self._rpc.ask(worker, AskObstacles(some, group))
                except NoAnswer as error:
                    if worker not in self._rpc.workers:  # it has left
                        del left[worker]
                    elif time.monotonic() > deadline_s:
                        raise JobUnreachable(f"bins cannot be moved now: {error}") from error
                    continue
                if answer.found:
                    raise BadRequest(f"{answer.found[0]}; no bin was moved, and the job goes on")
                deadline_s = time.monotonic() + BUSY_S
                if answer.left:
                    left[worker] = answer.left
                else:
                    del left[worker]

    def _moving_bins(
        self, moves: Callable[[BinId, WorkerId], bool], group: str | None
    ) -> dict[WorkerId, tuple[BinId, ...]]:
        """The bins to look at, by their owners."""
        moving: dict[WorkerId, set[BinId]] = {}
        for table in self._rpc.ask(self._rpc.commanding, AskBins()):
            for index, owner in enumerate(table.owners if group in (None, table.group) else ()):
                if moves(BinId(index), owner):
                    moving.setdefault(owner, set()).add(BinId(index))
        return {owner: tuple(sorted(bins)) for owner, bins in sorted(moving.items())}

    @staticmethod
    def _outcome(change: Change | None) -> Outcome:
        assert change is not None
        change.finished.wait()
        return Outcome.of(change.state())

    def _bins(self) -> list[MovableBins]:
        """What plans are made from: the groups as the commanding worker sees them, with what bins weigh everywhere."""
        deadline_s = time.monotonic() + BUSY_S
        answers, silent = self._rpc.ask_all(AskBins())
        while silent:
            if time.monotonic() > deadline_s:
                raise JobUnreachable(f"bins cannot be weighed now: {'; '.join(silent.values())}")
            answers, silent = self._rpc.ask_all(AskBins())
        return movable(answers[self._rpc.commanding], answers.values())

    def _worker(self, worker: WorkerId, answer: WorkerStatus | None, silent: str | None) -> WorkerRow:
        process = self._rpc.workers[worker]
        bins = answer.bins if answer else ()
        unstepped = process.liveness.unstepped(worker)
        return WorkerRow(
            worker=worker,
            process=process.process,
            pid=process.pid,
            state="joining" if not process.member else "leaving" if answer and answer.leaving else "member",
            frontier=answer.frontier if answer else None,
            congested=bool(answer and answer.congested),
            bins=sum(operator.owners.count(worker) for operator in bins),
            keys=sum(count for operator in bins for count in operator.keys.values()),
            silent=silent,
            unstepped_s=unstepped.for_s if unstepped is not None else 0.0,
            stack=tuple(unstepped.stack) if unstepped is not None else (),
        )


def _of(worker: WorkerId, blocker: BlockerState) -> WorkersBlocker:
    return WorkersBlocker(**_fields(blocker), worker=worker)


def _fields(value: BlockerState) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}
