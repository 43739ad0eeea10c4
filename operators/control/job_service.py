"""Answers for a whole job: asks its workers, puts together what they say, and passes commands to who sends them.

It runs in the process that supervises the job, behind the admin endpoint. It holds no state of the job itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from framework.errors import NoAnswer
from framework.launch.config import PROCESSES_MAX
from framework.launch.control_protocol import Processes
from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest, JobUnreachable
from operators.broker.address import BrokerAddress
from operators.control.job_messages import (
    NOTHING,
    Explanation,
    JobProgress,
    JobStatus,
    Outcome,
    PlanStatus,
    ProposedPlan,
    ScaleAnswer,
    ScaleState,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.scaling import ProcessChange, Scaling, change_to
from operators.control.summary import bin_tables, least_blockers, least_frontier, operator_rows
from operators.control.worker_messages import (
    AskBins,
    AskBroker,
    AskExplanation,
    AskPlan,
    AskProgress,
    AskStatus,
    BlockerState,
    CancelPlan,
    EndInputs,
    PlanState,
    RunPlan,
    WorkerStatus,
)
from operators.control.worker_rpc import WorkerRpc
from operators.control.worker_status import LISTEN_S
from routing.bins import BinId
from routing.migration import Plan, Reassignment, all_at_once, batched, fluid, optimized
from routing.migration.balance import balance

SAMPLE_S = 0.5
"""How long rates are measured, if nobody has asked just before."""

OPEN_S = 20.0
"""How long who wants to feed or read a job waits for it to begin."""

OPEN_POLL_S = 0.05
PLAN_POLL_S = 0.05

BUSY_S = 10.0
"""How long workers may be busy before a request that needs all of them is given up."""

STRATEGIES: dict[str, Callable[[Reassignment], Plan]] = {
    "optimized": optimized,
    "fluid": fluid,
    "batched": partial(batched, bins_max=16),
    "all-at-once": all_at_once,
}


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a plan is made and carried out."""

    strategy: str | None = None
    """One of `STRATEGIES`; None for what is usual for the command."""
    gap_s: float = 0.0
    """Between steps."""
    dry_run: bool = False


USUAL = PlanOptions()


@dataclass(frozen=True, slots=True)
class _BinLoad:
    """The owner of each bin once all that was announced is installed, the keys in each, and what has left workers."""

    owners: list[WorkerId]
    keys: dict[BinId, int]
    shipped_bytes: int


class JobService:
    """One running job."""

    def __init__(self, job: str, processes: Processes) -> None:
        self.job = job
        self._began_s = time.monotonic()
        self._rpc = WorkerRpc(processes)
        self._changing = threading.Lock()
        self._scaling: Scaling | None = None
        self._sampling = threading.Lock()
        self._sample: tuple[float, dict[WorkerId, WorkerStatus]] = (float("-inf"), {})
        self._broker: BrokerAddress | None = None
        self._shipped_bytes_before = 0
        """What had left all workers when the last plan began."""
        self._shipped_bytes = 0
        """What has left them since the job began, as far as was seen."""

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes as of now, joiners included."""
        return [process.process for process in self._rpc.processes]

    # What can be asked

    def progress(self) -> JobProgress:
        """How far the job is; cheap."""
        answers, silent = self._rpc.ask_all(AskProgress())
        return JobProgress(
            workers=len(self._rpc.workers),
            running_s=time.monotonic() - self._began_s,
            frontier=least_frontier(answer.frontier for answer in answers.values()),
            plan=next((answer.plan for answer in answers.values() if answer.plan), None),
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
            running_s=time.monotonic() - self._began_s,
            frontier=least_frontier(answer.frontier for answer in answers.values()),
            workers=tuple(self._worker(id_, answers.get(id_), silent.get(id_)) for id_ in self._rpc.workers),
            operators=operator_rows(before, answers),
            bins=bin_tables(answers.values()),
            plan=next((answer.plan for answer in answers.values() if answer.plan), None),
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

    def plan(self) -> PlanStatus:
        """How the last plan is doing."""
        answers, silent = self._rpc.ask_all(AskPlan())
        state = answers[self._rpc.commanding].plan if not silent else None
        if (
            state is not None and state.finished
        ):  # workers answer at different moments: some before their last bins left
            answers, silent = self._rpc.ask_all(AskPlan())
        if silent:
            raise JobUnreachable("; ".join(silent.values()))
        if state is None:
            raise BadRequest("no plan has run yet; `hailer rebalance` makes one")
        shipped_bytes = sum(answer.shipped_bytes for answer in answers.values())
        self._shipped_bytes = max(self._shipped_bytes, shipped_bytes)  # operators that have ended have no count
        return _with_bytes(state, self._shipped_bytes - self._shipped_bytes_before)

    def scaling(self) -> ScaleState:
        """How the last change of processes is doing."""
        if self._scaling is None:
            raise BadRequest("the processes of this job have not changed; `hailer scale N` changes them")
        return self._scaling.state()

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

    def move(self, bins: Sequence[int], to: int, options: PlanOptions = USUAL) -> ProposedPlan:
        """Give some bins to a worker."""
        table = self._bin_load()
        target = list(table.owners)
        self._rpc.check(to)
        for bin_id in bins:
            if not 0 <= bin_id < len(target):
                raise BadRequest(f"there is no bin {bin_id}; the bins are 0 to {len(target) - 1}")
            target[bin_id] = WorkerId(to)
        return self._propose(table, target, options, all_at_once)

    def map(self, owners: Sequence[int], options: PlanOptions = USUAL) -> ProposedPlan:
        """Give every bin the owner that is named for it."""
        table = self._bin_load()
        if len(owners) != len(table.owners):
            raise BadRequest(f"there are {len(table.owners)} bins, but {len(owners)} owners; name one for each bin")
        for owner in set(owners):
            self._rpc.check(owner)
        return self._propose(table, [WorkerId(owner) for owner in owners], options, optimized)

    def rebalance(self, options: PlanOptions = USUAL) -> ProposedPlan:
        """Spread the bins over the workers by what is in them."""
        table = self._bin_load()
        members = [worker for worker, process in self._rpc.workers.items() if process.member]
        return self._propose(table, balance(table.owners, members, table.keys or None), options, optimized)

    def move_to(self, bins: Sequence[int], worker: int) -> Outcome:
        """Give some bins to a worker, and wait until it has them; raises `ChangeFailed` if that does not come about."""
        if self.move(bins, worker).number is None:
            return NOTHING
        state: PlanStatus | None = None
        heard_s = time.monotonic()
        while state is None or not state.finished:
            time.sleep(PLAN_POLL_S)
            try:
                state, heard_s = self.plan(), time.monotonic()
            except JobUnreachable:  # a worker is busy, or the job has ended
                if time.monotonic() - heard_s > BUSY_S:
                    raise
        return Outcome.of(f"move to worker {worker}", state)

    def cancel(self) -> PlanState:
        """Let the plan that is under way end after its current step."""
        return self._rpc.ask(self._rpc.commanding, CancelPlan())

    # Processes

    def scale(self, processes: int, *, dry_run: bool = False) -> ScaleAnswer:
        """Make the job have this number of processes."""
        if not 1 <= processes <= PROCESSES_MAX:
            raise BadRequest(
                f"a job has between 1 process, which feeds it, and {PROCESSES_MAX}, not {processes}; "
                f"to end it, stop `hailer run`"
            )
        return self._change(f"scale to {processes}", change_to(processes, self.processes), dry_run=dry_run)

    def scale_to(self, processes: int) -> Outcome:
        """The same, and wait until it is done; raises `ChangeFailed` if that does not come about."""
        if not self.scale(processes).begun:
            return NOTHING
        assert self._scaling is not None
        self._scaling.finished.wait()
        return Outcome.of(f"scale to {processes}", self._scaling.state())

    def leave(self, worker: int) -> ScaleAnswer:
        """Let a worker leave, with all others of its process."""
        process = self._rpc.workers[self._rpc.check(worker)]
        return self._change(f"leave of worker {worker}", ProcessChange(leaves=(process.process,)), dry_run=False)

    def finish(self) -> None:
        """End the inputs that others feed."""
        self._rpc.ask(self._rpc.commanding, EndInputs())

    # How

    def _change(self, goal: str, change: ProcessChange, *, dry_run: bool) -> ScaleAnswer:
        if dry_run or not (change.joins or change.leaves):
            return ScaleAnswer(change.joins, change.leaves, begun=False)
        with self._changing:
            self._check_unchanging()
            self._scaling = Scaling(self._rpc, goal, change)
            self._scaling.start()
        return ScaleAnswer(change.joins, change.leaves, begun=True)

    def _check_unchanging(self) -> None:
        if self._scaling is not None and not self._scaling.finished.is_set():
            state = self._scaling.state()
            raise BadRequest(f"a {state.goal} is under way ({state.waits_for}); wait for its end")

    def _propose(
        self,
        table: _BinLoad,
        target: Sequence[WorkerId],
        options: PlanOptions,
        usual: Callable[[Reassignment], Plan],
    ) -> ProposedPlan:
        """A plan, which is begun unless nothing moves or it is only to be shown."""
        strategy = usual if options.strategy is None else STRATEGIES[options.strategy]
        plan = strategy(Reassignment(table.owners, target, heat=table.keys))
        if not plan.bins or options.dry_run:
            return ProposedPlan(plan, None)
        self._check_unchanging()
        number = self._rpc.ask(self._rpc.commanding, RunPlan(plan, options.gap_s))
        self._shipped_bytes_before = self._shipped_bytes = table.shipped_bytes
        return ProposedPlan(plan, number)

    def _bin_load(self) -> _BinLoad:
        """What a plan is made from."""
        deadline_s = time.monotonic() + BUSY_S
        answers, silent = self._rpc.ask_all(AskBins())
        while silent:
            if time.monotonic() > deadline_s:
                raise JobUnreachable(f"bins cannot be moved now: {'; '.join(silent.values())}")
            answers, silent = self._rpc.ask_all(AskBins())
        first = answers[self._rpc.commanding]
        if not first:
            raise BadRequest(
                "no operator of this job keeps its state on bins that can be moved; `hailer status` lists its operators"
            )
        if len({len(operator.owners) for operator in first}) > 1:
            sizes = ", ".join(f"{operator.name!r} has {len(operator.owners)}" for operator in first)
            raise BadRequest(f"a command goes to all operators, and they differ in bins: {sizes}; give them the same")
        operators = [operator for answer in answers.values() for operator in answer]
        keys: Counter[BinId] = Counter()
        for operator in operators:
            keys.update(operator.keys)
        return _BinLoad(list(first[0].ahead), dict(keys), sum(operator.shipped_bytes for operator in operators))

    def _worker(self, worker: WorkerId, answer: WorkerStatus | None, silent: str | None) -> WorkerRow:
        process = self._rpc.workers[worker]
        bins = answer.bins if answer else ()
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
        )


def _of(worker: WorkerId, blocker: BlockerState) -> WorkersBlocker:
    return WorkersBlocker(**_fields(blocker), worker=worker)


def _with_bytes(state: PlanState, state_bytes: int) -> PlanStatus:
    return PlanStatus(**_fields(state), state_bytes=state_bytes)


def _fields(value: PlanState | BlockerState) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}
