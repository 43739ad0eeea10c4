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

from framework.launch.link import NoAnswer, RequestFailed
from framework.launch.plane import Supervised
from framework.membership import WorkerId
from routing.bins import BinId
from routing.control.arguments import hint
from routing.control.errors import BadRequest, JobUnreachable
from routing.control.summary import bin_rows, least_blockers, least_frontier, operator_rows
from routing.control.times import from_json
from routing.control.vitals import LISTEN_S
from routing.plan import Plan, Reassignment, all_at_once, balance, batched, fluid, optimized

WITHIN_S = 2.0
"""How long a worker has to get to its next step."""

SAMPLE_S = 0.5
"""How long rates are measured, if nobody has looked just before."""

_NONE: Mapping[WorkerId, str] = {}

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


class Overseer:
    """One running job."""

    def __init__(self, job: str, processes: Sequence[Supervised]) -> None:
        self.job = job
        self._began_s = time.monotonic()
        self._supervised = processes
        self._sampling = threading.Lock()
        self._sample: tuple[float, dict[WorkerId, Any]] = (float("-inf"), {})
        self._shipped_bytes_before = 0
        """What had left all workers when the last plan began."""
        self._shipped_bytes = 0
        """What has left them since the job began, as far as was seen."""

    # What can be asked

    def pulse(self) -> dict[str, Any]:
        """How far the job is; cheap."""
        answers, silent = self._ask_all("pulse")
        return {
            "workers": len(self._processes),
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
                before, busy = self._ask_all("status")
                time.sleep(SAMPLE_S)
            answers, silent = self._ask_all("status", but=busy)
            self._sample = time.monotonic(), answers
        return {
            "job": self.job,
            "pid": os.getpid(),
            "running_s": time.monotonic() - self._began_s,
            "frontier": least_frontier(answers.values()),
            "workers": [self._worker(id_, answers.get(id_), silent.get(id_)) for id_ in self._processes],
            "operators": operator_rows(before, answers),
            "bins": bin_rows(answers),
            "plan": next((answer["plan"] for answer in answers.values() if answer["plan"]), None),
        }

    def explain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What holds the frontier of an operator."""
        answers, silent = self._ask_all("explain", {"operator": arguments.get("operator")})
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
        answers, silent = self._ask_all("plan")
        if silent:
            raise JobUnreachable("; ".join(silent.values()))
        state = answers[self._commanding]["plan"]
        if state is None:
            raise BadRequest("no plan has run yet; `hailer rebalance` makes one")
        shipped_bytes = sum(answer["shipped_bytes"] for answer in answers.values())
        self._shipped_bytes = max(self._shipped_bytes, shipped_bytes)  # operators that have ended have no count
        return {**state, "state_bytes": self._shipped_bytes - self._shipped_bytes_before}

    # What can be done

    def move(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give some bins to a worker."""
        match arguments:
            case {"bins": [*bins], "to": int(to)} if bins and all(type(bin_id) is int for bin_id in bins):
                target = self._table().owners
                self._check_worker(to)
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
                    self._check_worker(owner)
                return self._run([WorkerId(owner) for owner in owners], arguments, "optimized")
        raise BadRequest('a map names the owner of every bin, bin 0 first: {"owners": [0, 1, 0, 1]}')

    def rebalance(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Spread the bins over the workers by what is in them."""
        table = self._table()
        target = balance(table.owners, list(self._processes), table.keys or None)
        return self._run(target, arguments, "optimized")

    def cancel(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Let the plan that is under way end after its current step."""
        answer: dict[str, Any] = self._ask(self._commanding, "cancel")
        return answer

    # How

    @property
    def _processes(self) -> dict[WorkerId, Supervised]:
        """The process of each worker, as of now."""
        return {worker: process for process in self._supervised for worker in process.workers}

    @property
    def _commanding(self) -> WorkerId:
        return min(self._processes)

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
            asked = {"plan": plan.to_dict(), "gap_s": gap_s}
            answer["plan"] = self._ask(self._commanding, "run plan", asked)
            self._shipped_bytes_before = self._shipped_bytes = table.shipped_bytes
        return answer

    def _table(self) -> _Table:
        """What a plan is made from."""
        answers, silent = self._ask_all("bins")
        if silent:
            raise JobUnreachable(f"bins cannot be moved now: {'; '.join(silent.values())}")
        first = answers[self._commanding]
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

    def _check_worker(self, worker: int) -> None:
        if worker not in self._processes:
            listed = ", ".join(map(str, sorted(self._processes)))
            raise BadRequest(f"there is no worker {worker}; there are {listed}")

    def _ask(self, worker: WorkerId, request: str, arguments: Mapping[str, Any] | None = None) -> Any:
        return self._processes[worker].inquiry.ask(worker, request, arguments, within_s=WITHIN_S)

    def _ask_all(
        self, request: str, arguments: Mapping[str, Any] | None = None, *, but: Mapping[WorkerId, str] = _NONE
    ) -> tuple[dict[WorkerId, Any], dict[WorkerId, str]]:
        """What the workers answer, and why those that do not do not; those in `but` are not asked again."""
        asked = {
            worker: process.inquiry.begin(worker, request, arguments, within_s=WITHIN_S)
            for worker, process in self._processes.items()
            if worker not in but
        }
        answers: dict[WorkerId, Any] = {}
        silent = dict(but)
        for worker, pending in asked.items():
            try:
                answers[worker] = pending.result()
            except NoAnswer as error:
                silent[worker] = str(error)
            except RequestFailed as error:
                raise BadRequest(str(error)) from error
        return answers, silent

    def _worker(self, worker: WorkerId, answer: Any, silent: str | None) -> dict[str, Any]:
        process = self._processes[worker]
        bins = answer["bins"] if answer else []
        return {
            "worker": worker,
            "process": process.process,
            "pid": process.pid,
            "frontier": answer["frontier"] if answer else None,
            "congested": bool(answer and answer["congested"]),
            "bins": sum(operator["owners"].count(worker) for operator in bins),
            "keys": sum(count for operator in bins for count in operator["keys"].values()),
            "silent": silent,
        }
