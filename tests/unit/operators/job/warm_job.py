"""Builds a job of columns in a process of its own, and says what building it has loaded."""

from __future__ import annotations

import json
import sys

from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators.job.flow import Flow
from operators.job.job import Job
from operators.job.warm_start import load_noted

job = Job("warm")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


@job.dataflow
def counts(flow: Flow) -> None:
    words = flow.input_columns("words", {"word": str})
    state, output = {"total": int}, {"word": str, "total": int}
    counts = words.stateful_state_machine(count, key="word", state=state, initial=0, output=output, bins=4)
    flow.output("counts", counts)


def loaded() -> set[object]:
    ours = {name for name in sys.modules if name.split(".")[0] in ("framework", "routing", "operators")}
    if "routing.columns.compiled" not in sys.modules:
        return {*ours}
    from routing.columns.compiled import loaded_kernels

    return {*ours, *loaded_kernels()}


def main(worker: Worker) -> None:
    before = loaded()
    job.build(worker, lambda _: lambda epoch, records: None)
    print(json.dumps(sorted(map(str, loaded() - before))))


if __name__ == "__main__":
    print(json.dumps(load_noted(job)))
    execute(main)
