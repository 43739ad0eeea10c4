"""WordCount as a job: named inputs and outputs, and no loop to drive it.

    hailer run examples/wordcount_job.py -n 2 --input lines=examples/data/alice.txt
    hailer run examples/wordcount_job.py -n 2 --input lines=examples/data/alice.txt --output counts=out

The first prints each count as it changes; the second writes them to `out`, a file of JSON lines per worker. Counts are
on bins, which commands to the job can move from worker to worker (`Flow.command`).
"""

from __future__ import annotations

from hailer import Flow, Job

job = Job("wordcount")


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


@job.dataflow
def wordcount(flow: Flow) -> None:
    words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
    flow.output("counts", words.stateful_state_machine(count, initial=0), {"word": str, "count": int})


if __name__ == "__main__":
    job.main()
