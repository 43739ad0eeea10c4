"""WordCount on columns: batches of lines, split and counted by compiled code.

    hailer run examples/wordcount_columns.py -n 2 --input lines=examples/data/alice.txt
    python examples/wordcount_columns.py --input lines=examples/data/alice.txt --output counts=out

The fold is that of `wordcount_job.py`; it is compiled when the job starts, and the output is the same.
"""

from __future__ import annotations

from hailer import Flow, Job, split_words

job = Job("wordcount")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@job.dataflow
def wordcount(flow: Flow) -> None:
    words = flow.input_columns("lines", {"line": str}).flat_map(split_words("line"))
    counts = words.stateful_state_machine(
        count, key="word", state={"total": int}, initial=0, output={"word": str, "total": int}
    )
    flow.output("counts", counts)


if __name__ == "__main__":
    job.main()
