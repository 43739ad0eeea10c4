"""Where stateful operators put their keys, by whether they have a `control` stream and are in a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from framework.errors import GraphError
from operators import (
    DISCARD,
    BinOptions,
    ControlInput,
    Flow,
    Job,
    MemoryStore,
    RocksStore,
    Stream,
    Timers,
    Worker,
    counting,
    empty,
    example,
    execute,
    process,
    to_stream,
)
from operators.stateful.placement import implied_control
from operators.stateful.windows import EpochClock
from routing.registry import operators_on
from tests.unit.operators.cluster import SEEDS, merged, run

Pair = tuple[str, int]


def count(word: str, n: int, total: int) -> tuple[int, list[Pair]]:
    return total + n, [(word, total + n)]


def of_key(pair: Pair) -> str:
    return pair[0]


def take(time: int, rows: list[Any], bin: Any) -> list[Any]:
    return rows


def take_two(time: int, rows: list[Any], others: list[Any], bin: Any) -> list[Any]:
    return rows + others


class Forget:
    def initial(self) -> int:
        return 0

    def on_record(self, port: int, record: Any, state: int, timers: Timers) -> tuple[Any, list[Any]]:
        return DISCARD, [record]

    def on_timer(self, key: Any, state: int, timers: Timers) -> tuple[Any, list[Any]]:
        raise AssertionError


in_windows: dict[str, Any] = {"key": of_key, "event_time": lambda pair: pair[1], "clock": EpochClock(1)}

PER_KEY: dict[str, Callable[..., Any]] = {
    "stateful_state_machine": lambda s, **o: s.stateful_state_machine(count, initial=0, **o),
    "process": lambda s, **o: process([(s, of_key)], Forget(), **o),
    "tumbling_window": lambda s, **o: s.tumbling_window(counting(), length=2, **in_windows, **o).results,
    "sliding_window": lambda s, **o: s.sliding_window(counting(), length=2, step=1, **in_windows, **o).results,
    "session_window": lambda s, **o: s.session_window(counting(), gap=2, **in_windows, **o).results,
    "stateful_join": lambda s, **o: s.stateful_join(s, key=of_key, other_key=of_key, **o),
}
PER_BIN: dict[str, Callable[..., Any]] = {
    "stateful_unary": lambda s, **o: s.stateful_unary(take, key=of_key, initial=dict, **o),
    "stateful_unary_input": lambda s, **o: s.stateful_unary_input(take, take, key=of_key, initial=dict, **o),
    "stateful_binary": lambda s, **o: s.stateful_binary(s, take_two, key=of_key, other_key=of_key, initial=dict, **o),
    "stateful_binary_input": lambda s, **o: s.stateful_binary_input(
        s, take_two, take, key=of_key, other_key=of_key, initial=dict, **o
    ),
    "distribute": lambda s, **o: s.distribute(key=of_key, **o),
}
ALL = PER_KEY | PER_BIN


@pytest.mark.parametrize("operator", ALL)
def test_outside_of_a_job_without_control_nothing_moves(operator: str):
    def main(worker: Worker):
        with worker.dataflow() as scope:
            results = ALL[operator](to_stream(scope, [("tea", 1)]), bins=BinOptions(4)).extract()
        assert operators_on(worker) == []
        return results

    [results] = execute(main)
    assert results.rows()


@pytest.mark.parametrize("operator", ALL)
def test_with_control_it_is_on_bins(operator: str):
    def main(worker: Worker):
        with worker.dataflow() as scope:
            ALL[operator](to_stream(scope, [("tea", 1)]), control=empty(scope), bins=4, name="it")
        assert [(it.name, it.bins.count) for it in operators_on(worker)] == [("it", 4)]

    execute(main)


@pytest.mark.parametrize("operator", ALL)
def test_in_a_job_it_listens_to_the_jobs_own_control(operator: str):
    job = Job("implied")
    listed: list[Any] = []

    @job.dataflow
    def build(flow: Flow) -> None:
        pairs = flow.input("pairs")
        assert flow.control is None
        flow.output("out", ALL[operator](pairs, bins=8, name="first"))
        control = flow.control
        flow.output("again", ALL[operator](pairs, name="second"))
        assert flow.control is control
        assert control is not None
        listed.extend((it.name, it.bins.count) for it in operators_on(flow.worker))

    job.run({"pairs": [("tea", 1)]})
    assert listed == [("first", 8), ("second", 256)]


def test_before_a_worker_of_a_job_leaves_its_bins_move():
    job = Job("leaving")
    told: list[Any] = []

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("out", flow.input("pairs").stateful_state_machine(count, initial=0, bins=8, name="counts"))
        told.append(flow.worker.membership.obstacles.objection())

    job.run({"pairs": []})
    assert told == ["its 8 bins of operator 'counts' move to the others first"]


def test_where_a_program_sends_the_commands_it_is_told_which_a_leaving_worker_needs():
    def main(worker: Worker) -> str | None:
        with worker.dataflow() as scope:
            pairs, control = to_stream(scope, [("tea", 1)]), empty(scope)
            pairs.stateful_state_machine(count, initial=0, bins=8, control=control, name="counts")
        return worker.membership.obstacles.objection()

    assert execute(main) == [
        "its 8 bins of operator 'counts' move to the others first; "
        "a Steward does that, or send Moves and then Retire(0)"
    ]


@pytest.mark.parametrize("operator", PER_BIN)
def test_without_a_state_per_key_there_is_no_store(operator: str):
    def build(scope):
        PER_BIN[operator](to_stream(scope, [("tea", 1)]), bins=BinOptions(store=RocksStore.maker()))

    with pytest.raises(GraphError, match=f"operator '{operator}' keeps no state per key, and cannot use a store"):
        example(build)


@pytest.mark.parametrize("operator", ALL)
@pytest.mark.parametrize("on_bins", [False, True])
def test_iterations_are_refused_before_a_store_is_made(operator: str, on_bins: bool):
    made = []

    def store(bins: Any) -> MemoryStore:
        made.append(bins)
        return MemoryStore(bins)

    def build(scope):
        options: dict[str, Any] = {"control": empty(scope)} if on_bins else {}
        if operator in PER_KEY:
            options["bins"] = BinOptions(store=store)
        with scope.iterative() as inner:
            ALL[operator](to_stream(scope, [("a", 1)]).enter(inner), **options)

    with pytest.raises(GraphError, match=rf"operator '{operator}' .* outermost scope"):
        example(build)
    assert made == []


@pytest.mark.parametrize("workers", [1, 2])
def test_commands_that_are_not_brought_to_all_workers_are_refused(workers: int):
    def build(scope):
        control = ControlInput().stream(scope)
        to_stream(scope, [("tea", 1)]).stateful_state_machine(count, initial=0, control=control, name="counts")

    if workers == 1:
        run(build, seed=1, workers=1)
        return
    with pytest.raises(GraphError, match=r"operator 'counts' would hear .*: control=control.stream\(scope\).broadcast"):
        run(build, seed=1, workers=workers)


def test_another_dataflow_does_not_listen_to_the_jobs_control():
    def commands() -> Stream[Any]:
        raise AssertionError

    def main(worker: Worker):
        with worker.dataflow() as jobs:
            to_stream(jobs, [1])
        with implied_control(jobs, commands), worker.dataflow() as other:
            to_stream(other, [("tea", 1)]).stateful_state_machine(count, initial=0)
        assert operators_on(worker) == []

    execute(main)


def test_in_a_region_of_a_job_it_listens_too():
    job = Job("regions")

    @job.dataflow
    def build(flow: Flow) -> None:
        def counted(pairs: Stream[Pair]) -> Stream[Pair]:
            return pairs.stateful_state_machine(count, initial=0)

        flow.output("out", flow.input("pairs").region(lambda pairs: pairs.region(counted)))
        assert [it.name for it in operators_on(flow.worker)] == ["stateful_state_machine"]

    assert job.run({"pairs": [("tea", 1), ("tea", 1)]}) == {"out": [(0, ("tea", 1)), (0, ("tea", 2))]}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_of_a_bin_is_on_one_worker_also_when_it_is_fixed(seed: int):
    """Two bins, some keys in each, and records from all workers: each bin counts to the number of its records."""

    def tally(time: int, rows: list[Any], bin: Any) -> list[Any]:
        bin.state += len(rows)
        return [(bin.bin_id, bin.state)]

    def build(scope):
        numbers = to_stream(scope, range(20))
        return numbers.stateful_unary(tally, key=int, initial=0, bins=2).extract()

    rows = merged(run(build, seed=seed))[0]
    highest = {bin_id: max(total for other, total in rows if other == bin_id) for bin_id in (0, 1)}
    assert sum(highest.values()) == 3 * 20
