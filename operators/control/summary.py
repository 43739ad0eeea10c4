"""What the workers of a job say, put together: pure functions from their answers to the job's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain
from operators.control.times import from_json, to_json


def least_frontier(answers: Iterable[Any]) -> list[Any]:
    """The least times in any worker's view."""
    return [to_json(time) for time in Antichain(from_json(time) for answer in answers for time in answer["frontier"])]


def least_blockers(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of all workers' holdings the ones with the least results: another's later result holds nothing back."""
    least = set(Antichain(from_json(blocker["arrives"]) for blocker in found))
    return [blocker for blocker in found if from_json(blocker["arrives"]) in least]


def operator_rows(before: Mapping[WorkerId, Any], answers: Mapping[WorkerId, Any]) -> list[dict[str, Any]]:
    """Each operator on all workers: their records per second together, and the part of their time that it takes."""
    rows: dict[str, dict[str, Any]] = {}
    for worker, answer in answers.items():
        earlier = before.get(worker)
        counted = {operator["path"]: operator for operator in earlier["operators"]} if earlier else {}
        elapsed_s = answer["metered_s"] - (earlier["metered_s"] if earlier else 0.0)
        for operator in answer["operators"]:
            row = rows.setdefault(
                operator["path"],
                {key: operator[key] for key in ("path", "name", "frontier")} | {"records_per_s": 0.0, "busy": 0.0},
            )
            was = counted.get(operator["path"], {"records": 0, "busy_s": 0.0})
            if elapsed_s > 0:
                row["records_per_s"] += max(0, operator["records"] - was["records"]) / elapsed_s
                row["busy"] += max(0.0, operator["busy_s"] - was["busy_s"]) / elapsed_s / len(answers)
    return list(rows.values())


def bin_rows(answers: Mapping[WorkerId, Any]) -> list[dict[str, Any]]:
    """Each operator on bins: who owns them by the first worker's table, and the keys in each, on all workers."""
    rows: dict[str, dict[str, Any]] = {}
    for answer in answers.values():
        for operator in answer["bins"]:
            row = rows.setdefault(operator["path"], {**operator, "keys": Counter()})
            row["keys"].update(operator["keys"])
    return [{**row, "keys": dict(row["keys"])} for row in rows.values()]
