"""Answers for a whole job: asks its workers, puts together what they say, and passes commands to who sends them.

It runs in the process that supervises the job, behind the admin endpoint. It holds no state of the job itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from framework.launch.config import PROCESSES_MAX
from framework.launch.control_protocol import Processes
from framework.launch.rpc import NoAnswer
from framework.membership.members import WorkerId
from framework.suggest import hint
from operators.admin.errors import BadRequest, JobUnreachable
from operators.control.outcome import NOTHING, Outcome
from operators.control.scaling import Change, Scaling, change_to
from operators.control.summary import bin_rows, least_blockers, least_frontier, operator_rows
from operators.control.times import from_json
from operators.control.worker_rpc import WorkerRpc
from operators.control.worker_status import LISTEN_S
from routing.bins import BinId
from routing.migration import Plan, Reassignment, all_at_once, batched, fluid, optimized
from routing.migration.balance import balance

SAMPLE_S = 0.5
"""How long rates are measured, if nobody has looked just before."""

STRATEGIES: dict[str, Callable[[Reassignment], Plan]] = {
    "optimized": optimized,
    "fluid": fluid,
    "batched": partial(batched, bins_max=16),
    "all-at-once": all_at_once,
}


@dataclass(frozen=True, slots=True)
class _Table:
    """The owner of each bin once all that was announced is installed, the keys in each, and what has left workers."""

    owners: list[WorkerId]
    keys: dict[BinId, int]
    shipped_bytes: int


OPEN_S = 20.0
"""How long who wants to feed or read a job waits for it to begin."""

OPEN_POLL_S = 0.05
PLAN_POLL_S = 0.05

BUSY_S = 10.0
"""How long workers may be busy before a request that needs all of them is given up."""


class JobService:
    """One running job."""

    def __init__(self, job: str, workforce: Processes) -> None:
        self.job = job
        self._began_s = time.monotonic()
        self._assembly = WorkerRpc(workforce)
        self._changing = threading.Lock()
        self._scaling: Scaling | None = None
        self._sampling = threading.Lock()
        self._sample: tuple[float, dict[WorkerId, Any]] = (float("-inf"), {})
        self._portal: dict[str, Any] | None = None
        self._shipped_bytes_before = 0
        """What had left all workers when the last plan began."""
        self._shipped_bytes = 0
        """What has left them since the job began, as far as was seen."""

    @property
    def processes(self) -> list[int]:
        """The numbers of the processes as of now, joiners included."""
        return [process.process for process in self._assembly.processes]

    # What can be asked

    def pulse(self) -> dict[str, Any]:
        """How far the job is; cheap."""
        answers, silent = self._assembly.ask_all("pulse")
        return {
            "workers": len(self._assembly.workers),
            "running_s": time.monotonic() - self._began_s,
            "frontier": least_frontier(answers.values()),
            "plan": next((answer["plan"] for answer in answers.values() if answer["plan"]), None),
            "silent": sorted(silent),
        }

    def status(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Workers, operators, bins, the plan."""
        with self._sampling:
            before_s, before = self._sample
            busy: dict[WorkerId, str] = {}
            if time.monotonic() - before_s > LISTEN_S / 2:
                before, busy = self._assembly.ask_all("status")
                time.sleep(SAMPLE_S)
            answers, silent = self._assembly.ask_all("status", but=busy)
            self._sample = time.monotonic(), answers
        return {
            "job": self.job,
            "pid": os.getpid(),
            "running_s": time.monotonic() - self._began_s,
            "frontier": least_frontier(answers.values()),
            "workers": [self._worker(id_, answers.get(id_), silent.get(id_)) for id_ in self._assembly.workers],
            "operators": operator_rows(before, answers),
            "bins": bin_rows(answers),
            "plan": next((answer["plan"] for answer in answers.values() if answer["plan"]), None),
            "scale": self._scaling.state() if self._scaling is not None else None,
        }

    def explain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What holds the frontier of an operator."""
        answers, silent = self._assembly.ask_all("explain", {"operator": arguments.get("operator")})
        if not answers:
            raise JobUnreachable("; ".join(silent.values()))
        found = [{"worker": id_, **blocker} for id_, answer in answers.items() for blocker in answer["held"]]
        first = next(iter(answers.values()))
        held = least_blockers(found)
        expected = set(map(from_json, first["frontier"]))
        explained = {from_json(blocker["arrives"]) for blocker in held}
        return {
            **{key: first[key] for key in ("path", "name", "frontier")},
            "held": held,
            "under_way": [] if explained & expected else least_blockers(first["heard"]),
            "silent": {str(id_): reason for id_, reason in silent.items()},
        }

    def plan(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """How the last plan is doing."""
        answers, silent = self._assembly.ask_all("plan")
        if silent:
            raise JobUnreachable("; ".join(silent.values()))
        state = answers[self._assembly.commanding]["plan"]
        if state is None:
            raise BadRequest("no plan has run yet; `hailer rebalance` makes one")
        shipped_bytes = sum(answer["shipped_bytes"] for answer in answers.values())
        self._shipped_bytes = max(self._shipped_bytes, shipped_bytes)  # operators that have ended have no count
        return {**state, "state_bytes": self._shipped_bytes - self._shipped_bytes_before}

    def scaling(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """How the last change of processes is doing."""
        if self._scaling is None:
            raise BadRequest("the processes of this job have not changed; `hailer scale N` changes them")
        return self._scaling.state()

    # What can be done

    def move(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give some bins to a worker."""
        match arguments:
            case {"bins": [*bins], "to": int(to)} if bins and all(type(bin_id) is int for bin_id in bins):
                target = self._table().owners
                self._assembly.check(to)
                for bin_id in bins:
                    if not 0 <= bin_id < len(target):
                        raise BadRequest(f"there is no bin {bin_id}; the bins are 0 to {len(target) - 1}")
                    target[bin_id] = WorkerId(to)
                return self._run(target, arguments, "all-at-once")
        raise BadRequest('a move says which bins and where: {"bins": [17, 18], "to": 2}')

    def map(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give every bin the owner that is named for it."""
        match arguments:
            case {"owners": [*owners]} if owners and all(type(owner) is int for owner in owners):
                current = self._table().owners
                if len(owners) != len(current):
                    raise BadRequest(f"there are {len(current)} bins, but {len(owners)} owners; name one for each bin")
                for owner in set(owners):
                    self._assembly.check(owner)
                return self._run([WorkerId(owner) for owner in owners], arguments, "optimized")
        raise BadRequest('a map names the owner of every bin, bin 0 first: {"owners": [0, 1, 0, 1]}')

    def rebalance(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Spread the bins over the workers by what is in them."""
        table = self._table()
        target = balance(table.owners, self._owning(), table.keys or None)
        return self._run(target, arguments, "optimized")

    def scale(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Make the job have so many processes."""
        match arguments:
            case {"processes": int(count)} if type(count) is int:
                if not 1 <= count <= PROCESSES_MAX:
                    raise BadRequest(
                        f"a job has between 1 process, which feeds it, and {PROCESSES_MAX}, not {count}; "
                        f"to end it, stop `hailer run`"
                    )
                change = change_to(count, self.processes)
                return self._change(f"scale to {count}", change, dry_run=bool(arguments.get("dry_run")))
        raise BadRequest('a scale says how many processes there shall be: {"processes": 3}')

    def scale_to(self, count: int) -> Outcome:
        """The same, and wait until it is done; raises `ChangeFailed` if that does not come about."""
        if not self.scale({"processes": count})["begun"]:
            return NOTHING
        assert self._scaling is not None
        self._scaling.finished.wait()
        return Outcome.of(f"scale to {count}", self._scaling.state())

    def move_to(self, bins: Sequence[int], worker: int) -> Outcome:
        """Give some bins to a worker, and wait until it has them; raises `ChangeFailed` if that does not come about."""
        if "plan" not in self.move({"bins": list(bins), "to": worker}):
            return NOTHING
        state, heard_s = dict[str, Any](), time.monotonic()
        while not state.get("finished"):
            time.sleep(PLAN_POLL_S)
            try:
                state, heard_s = self.plan({}), time.monotonic()
            except JobUnreachable:  # a worker is busy, or the job has ended
                if time.monotonic() - heard_s > BUSY_S:
                    raise
        return Outcome.of(f"move to worker {worker}", state)

    def leave(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Let a worker go, with all others of its process."""
        match arguments:
            case {"worker": int(worker)} if type(worker) is int:
                process = self._assembly.workers[self._assembly.check(worker)]
                return self._change(f"leave of worker {worker}", Change(leaves=(process.process,)), dry_run=False)
        raise BadRequest('a leave says which worker: {"worker": 2}')

    def portal(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Where the job is fed and read from outside; its worker is asked until it is, since it may be busy later."""
        deadline_s = time.monotonic() + OPEN_S
        while self._portal is None:
            try:
                self._portal = self._assembly.ask(self._assembly.commanding, "portal")
            except NoAnswer:
                if time.monotonic() > deadline_s:
                    raise
            if self._portal is None and time.monotonic() > deadline_s:
                raise JobUnreachable(f"the job has not begun within {OPEN_S:g} s")
            time.sleep(OPEN_POLL_S)
        return self._portal

    def finish(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """End the inputs that others feed."""
        self._assembly.ask(self._assembly.commanding, "finish")
        return {}

    def cancel(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Let the plan that is under way end after its current step."""
        answer: dict[str, Any] = self._assembly.ask(self._assembly.commanding, "cancel")
        return answer

    # How

    def _change(self, goal: str, change: Change, *, dry_run: bool) -> dict[str, Any]:
        answer = {"joins": change.joins, "leaves": change.leaves, "begun": False}
        if dry_run or not (change.joins or change.leaves):
            return answer
        with self._changing:
            self._check_unchanging()
            self._scaling = Scaling(self._assembly, goal, change)
            self._scaling.start()
        return {**answer, "begun": True}

    def _check_unchanging(self) -> None:
        if self._scaling is not None and not self._scaling.finished.is_set():
            state = self._scaling.state()
            raise BadRequest(f"a {state['goal']} is under way ({state['waits_for']}); wait for its end")

    def _owning(self) -> list[WorkerId]:
        """Those that may own bins."""
        return [worker for worker, process in self._assembly.workers.items() if process.member]

    def _run(self, target: Sequence[WorkerId], arguments: Mapping[str, Any], usually: str) -> dict[str, Any]:
        strategy = arguments.get("strategy") or usually
        if strategy not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise BadRequest(f"there is no strategy {strategy!r}; there are {known}{hint(str(strategy), STRATEGIES)}")
        gap_s = arguments.get("gap_s") or 0
        if not isinstance(gap_s, int | float) or not 0 <= gap_s <= 3600:
            raise BadRequest(f"a gap of {gap_s!r} s between steps cannot be; give 0 to 3600")
        table = self._table()
        plan = STRATEGIES[strategy](Reassignment(table.owners, target, heat=table.keys))
        answer: dict[str, Any] = {"steps": plan.to_dict()["steps"], "bins": plan.bins}
        if plan.bins and not arguments.get("dry_run"):
            self._check_unchanging()
            asked = {"plan": plan.to_dict(), "gap_s": gap_s}
            answer["plan"] = self._assembly.ask(self._assembly.commanding, "run plan", asked)
            self._shipped_bytes_before = self._shipped_bytes = table.shipped_bytes
        return answer

    def _table(self) -> _Table:
        """What a plan is made from."""
        deadline_s = time.monotonic() + BUSY_S
        answers, silent = self._assembly.ask_all("bins")
        while silent:
            if time.monotonic() > deadline_s:
                raise JobUnreachable(f"bins cannot be moved now: {'; '.join(silent.values())}")
            answers, silent = self._assembly.ask_all("bins")
        first = answers[self._assembly.commanding]
        if not first:
            raise BadRequest(
                "no operator of this job keeps its state on bins that can be moved; `hailer status` lists its operators"
            )
        if len({len(operator["owners"]) for operator in first}) > 1:
            sizes = ", ".join(f"{operator['name']!r} has {len(operator['owners'])}" for operator in first)
            raise BadRequest(f"a command goes to all operators, and they differ in bins: {sizes}; give them the same")
        operators = [operator for answer in answers.values() for operator in answer]
        keys: Counter[BinId] = Counter()
        for operator in operators:
            keys.update({BinId(int(bin_id)): count for bin_id, count in operator["keys"].items()})
        shipped_bytes = sum(operator["shipped_bytes"] for operator in operators)
        return _Table([WorkerId(owner) for owner in first[0]["ahead"]], dict(keys), shipped_bytes)

    def _worker(self, worker: WorkerId, answer: Any, silent: str | None) -> dict[str, Any]:
        process = self._assembly.workers[worker]
        bins = answer["bins"] if answer else []
        return {
            "worker": worker,
            "process": process.process,
            "pid": process.pid,
            "state": "joining" if not process.member else "leaving" if answer and answer["leaving"] else "member",
            "frontier": answer["frontier"] if answer else None,
            "congested": bool(answer and answer["congested"]),
            "bins": sum(operator["owners"].count(worker) for operator in bins),
            "keys": sum(count for operator in bins for count in operator["keys"].values()),
            "silent": silent,
        }
