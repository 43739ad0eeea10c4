"""WordCount on rows or columns, as the environment variable `SOAK_JOB` says; run by `soak_rescale.py`."""

from __future__ import annotations

import json
import os

from operators import Flow, Job
from operators.columns import split_words

job = Job("soaked")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@job.dataflow
def wordcount(flow: Flow) -> None:
    settings = json.loads(os.environ["SOAK_JOB"])
    bins = settings["bins"]
    if settings["columns"]:
        words = flow.input_columns("lines", {"line": str}).flat_map(split_words("line"))
        columns = words.stateful_state_machine(
            count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}, bins=bins
        )
        flow.output("counts", columns)
    else:
        pairs = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        flow.output("counts", pairs.stateful_state_machine(count, initial=0, bins=bins))
