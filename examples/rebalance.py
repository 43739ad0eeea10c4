"""Counts words whose bins are all on one worker, and spreads them over all workers while it counts.

    python examples/rebalance.py -n 2                 # two processes
    python examples/rebalance.py -w 4 --plan fluid    # four threads, a bin at a time

From the loads of the bins follows a target, from the target a plan of small steps, which is printed before it is run.
Each step is sent when the one before is complete. Every epoch is checked against the same count without bins.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from hailer import ControlInput, Input, Probe, Worker, add_flags, execute_from_args
from operators.commands import BinId, Bins
from operators.plans import Plan, PlanRunner, Reassignment, all_at_once, balance, batched, fluid, optimized

PLANS: dict[str, Callable[[Reassignment], Plan]] = {
    "all-at-once": all_at_once,
    "fluid": fluid,
    "batched": partial(batched, bins_max=4),
    "optimized": optimized,
}
BINS = 32
WORDS = 300
EPOCHS_BEFORE, EPOCHS_AFTER = 5, 5


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def main(worker: Worker, plan_name: str) -> None:
    words, control, probe = Input[tuple[str, int]]("words"), ControlInput(), Probe()
    with worker.dataflow("rebalance") as scope:
        pairs = words.stream(scope)
        counts = pairs.stateful_state_machine(count, initial=0, control=control.stream(scope).broadcast(), bins=BINS)
        counts.verify(pairs.state_machine(count, initial=0)).probe(probe)
    if worker.index != 0:
        return

    loads: Counter[BinId] = Counter()
    random = Random(1)

    def epoch() -> None:
        """Send some words, the early ones of the alphabet more often, and wait until they are counted."""
        rows = [(f"word {min(random.randrange(500), random.randrange(500))}", 1) for _ in range(WORDS)]
        loads.update(Bins(BINS).of(word) for word, _ in rows)
        following = words.time + 1
        words.send_batch(rows)
        words.advance_to(following)
        control.advance_to(following)
        worker.step_while(partial(probe.less_than, following))

    first, *_ = worker.members.workers
    control.map([first] * BINS)
    for _ in range(EPOCHS_BEFORE):
        epoch()

    current = [first] * BINS
    target = balance(current, worker.members.workers, loads)
    runner = PlanRunner(PLANS[plan_name](Reassignment(current, target, heat=loads)))
    print(runner.plan)
    completed = None
    while (step := runner.next(time.monotonic(), completed)) is not None:
        control.send(*step.moves)
        epoch()  # the step's own epoch: when it is complete, so is the step
        completed = 0 if completed is None else completed + 1
    for _ in range(EPOCHS_AFTER):
        epoch()
    shares = Counter(target)
    print(f"{runner.progress()}; bins per worker: {', '.join(str(shares[owner]) for owner in worker.members.workers)}")


def read_arguments() -> str:
    parser = argparse.ArgumentParser(description="Spread bins over all workers while their words are counted.")
    parser.add_argument("--plan", choices=list(PLANS), default="optimized", help="how to get there (optimized)")
    add_flags(parser)
    plan: str = parser.parse_args().plan
    return plan


if __name__ == "__main__":
    execute_from_args(partial(main, plan_name=read_arguments()))
