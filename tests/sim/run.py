"""One seed, one cluster, one or two random dataflows, from beginning to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from framework.simulation.cluster import SimulatedCluster, SimulatedPace
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from tests.sim.chaos import Installation
from tests.sim.plans import DataflowPlan, Planner
from tests.sim.reference import Receipts, TooMuch, reference

RECEIPTS_MAX = 60
"""How many records all inputs of a dataflow may receive, to keep a seed short."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How much a seed has exercised."""

    moves: int
    checks: int
    checks_settled: int
    receipts: int


def run_seed(seed: int, *, trace_moves: int = 0) -> Outcome:
    """Raise unless everything holds on the way and the results are right."""
    random = Random(seed)
    workers = random.choice((1, 2, 2, 2, 2, 3, 3, 3, 4, 5))
    plans, expected = _plan(random, workers)
    cluster = SimulatedCluster(
        workers=workers,
        seed=seed,
        congested_frames=random.choice((1, 4, 1_000_000)),
        pace=SimulatedPace.uneven(random, workers),
        replay=f"python -m pytest tests/sim/test_random_dataflows.py --sim-seed {seed} --sim-trace 50",
        trace_moves=trace_moves,
    )
    installed: dict[tuple[int, int], Installation] = {}
    with Invariants(cluster) as invariants:

        def program(worker: Worker) -> Iterator[None]:
            dice = Random(f"{seed}/{worker.index}")
            dropping: list[int] = []
            for number, plan in enumerate(plans):
                for _ in range(dice.choice((0, 0, 0, 1, 10))):
                    yield
                installed[number, worker.index] = Installation(plan, worker, seed)
                if plan.dropped:
                    dropping.append(number)
            yield
            sources = [source for number in range(len(plans)) for source in installed[number, worker.index].sources]
            while sources:
                source = dice.choice(sources)
                if not source.act():
                    sources.remove(source)
                yield
                if dropping and dice.random() < 0.2:
                    _drop(worker, dropping.pop(), invariants)
            while dropping:
                _drop(worker, dropping.pop(), invariants)

        cluster.run(program, moves_max=20_000)
        invariants.check_ended()
    for number, plan in enumerate(plans):
        if not plan.dropped:
            _compare(plan, expected[number], [installed[number, worker].received for worker in range(workers)])
    return Outcome(cluster.moves, invariants.checks, invariants.checks_settled, sum(map(Counter.total, expected)))


def _plan(random: Random, workers: int) -> tuple[list[DataflowPlan], list[Receipts]]:
    plans, expected = [], []
    for number in range(random.choice((1, 1, 1, 2))):
        plan = Planner(random, workers).dataflow()
        plan.dropped = number > 0 and random.random() < 0.3
        while True:
            try:
                expected.append(reference(plan, workers, RECEIPTS_MAX if plan.hops else None))
                break
            except TooMuch:
                plan.hops -= 1
        plans.append(plan)
    return plans, expected


def _drop(worker: Worker, number: int, invariants: Invariants) -> None:
    if number in worker.installed_dataflows():
        invariants.abandon(number)
        worker.drop_dataflow(number)


def _compare(plan: DataflowPlan, expected: Receipts, received: list[Receipts]) -> None:
    total: Receipts = Counter()
    for of_worker in received:
        total.update(of_worker)
    assert total == expected, f"too few {expected - total}, too many {total - expected}"
