"""Plans: every strategy gets there, within its bounds, and balance keeps its promises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.migration import Plan, PlanRunner, Reassignment, Step, all_at_once, batched, fluid, optimized
from routing.migration.balance import balance, rehome, spread
from routing.migration.matching import maximum_matching
from routing.migration.pacing import BINS_MAX, StepBudget, paced

WORKERS = [WorkerId(worker) for worker in (0, 1, 4, 5, 9)]
OWNER = st.sampled_from(WORKERS)

Edges = dict[str, list[int]]


@st.composite
def changes(draw: st.DrawFn) -> Reassignment:
    bins = draw(st.integers(0, 24))
    indices = st.integers(0, max(0, bins - 1)).map(BinId)
    sizes = draw(st.none() | st.dictionaries(indices, st.integers(0, 100), max_size=bins))
    heat = draw(st.none() | st.dictionaries(indices, st.floats(0, 10), max_size=bins))
    each = st.lists(OWNER, min_size=bins, max_size=bins)
    return Reassignment(draw(each), draw(each), sizes, heat) if bins else Reassignment([], [])


def transfers(plan: Plan) -> list[BinId]:
    return [transfer.bin_id for step in plan.steps for transfer in step.transfers]


def degree(change: Reassignment) -> int:
    """The most bins that one worker sends or receives."""
    sends = Counter(transfer.source for transfer in change.transfers())
    receives = Counter(transfer.target for transfer in change.transfers())
    return max([*sends.values(), *receives.values()], default=0)


def check(plan: Plan, change: Reassignment) -> None:
    """It gets there, moves nothing twice, has no empty step, and survives JSON."""
    assert plan.apply(change.current) == list(change.target)
    different = [index for index, owner in enumerate(change.current) if owner != change.target[index]]
    assert sorted(transfers(plan)) == different
    assert all(step.transfers for step in plan.steps)
    sizes = change.state_bytes or {}
    assert all(each.state_bytes == sizes.get(each.bin_id, 0) for step in plan.steps for each in step.transfers)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert len(str(plan).splitlines()) == len(plan.steps) + 1


def hottest_first(bins: list[BinId], change: Reassignment) -> bool:
    heat = [(change.heat or {}).get(bin_id, 0) for bin_id in bins]
    return heat == sorted(heat, reverse=True)


@given(changes())
def test_all_at_once_and_fluid(change: Reassignment):
    at_once, one_by_one = all_at_once(change), fluid(change)
    for plan in (at_once, one_by_one):
        check(plan, change)
        assert hottest_first(transfers(plan), change)
    assert len(at_once.steps) == (1 if at_once.bins else 0)
    assert len(one_by_one.steps) == one_by_one.bins


@given(changes(), st.none() | st.integers(1, 5), st.none() | st.integers(1, 300))
def test_batched_steps_are_within_bounds_and_full(change: Reassignment, bins_max: int | None, bytes_max: int | None):
    assume(bins_max is not None or bytes_max is not None)
    plan = batched(change, bins_max=bins_max, step_bytes_max=bytes_max)
    check(plan, change)
    assert hottest_first(transfers(plan), change)
    for step in plan.steps:
        assert bins_max is None or len(step.transfers) <= bins_max
        assert bytes_max is None or step.state_bytes <= bytes_max or len(step.transfers) == 1
    for step, following in pairwise(plan.steps):
        full = bins_max is not None and len(step.transfers) == bins_max
        heavy = bytes_max is not None and step.state_bytes + following.transfers[0].state_bytes > bytes_max
        assert full or heavy


def alone(step: Step) -> bool:
    """No worker sends twice or receives twice."""
    sources = [transfer.source for transfer in step.transfers]
    targets = [transfer.target for transfer in step.transfers]
    return len(set(sources)) == len(sources) and len(set(targets)) == len(targets)


@given(changes())
def test_optimized_takes_as_many_steps_as_the_busiest_worker_has_bins(change: Reassignment):
    plan = optimized(change)
    check(plan, change)
    assert all(alone(step) for step in plan.steps)
    assert len(plan.steps) == degree(change)
    assert hottest_first([step.transfers[0].bin_id for step in plan.steps], change)
    assert all(hottest_first([each.bin_id for each in step.transfers], change) for step in plan.steps)


@given(changes(), st.integers(1, 300))
def test_optimized_steps_stay_below_a_number_of_bytes(change: Reassignment, step_bytes_max: int):
    plan = optimized(change, step_bytes_max=step_bytes_max)
    check(plan, change)
    assert all(alone(step) for step in plan.steps)
    assert all(step.state_bytes <= step_bytes_max or len(step.transfers) == 1 for step in plan.steps)
    assert len(plan.steps) >= degree(change)


@given(changes(), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_paced_steps_move_all_once_in_pairs_within_what_the_budget_is_then(change: Reassignment, budgets: list[int]):
    budget, steps = StepBudget(budgets[0]), list[Step]()
    for step in paced(change.transfers(), budget):
        lanes: dict[tuple[WorkerId, WorkerId], list[int]] = {}
        for each in step.transfers:
            lanes.setdefault((each.source, each.target), []).append(each.state_bytes)
        assert len({source for source, _ in lanes}) == len({target for _, target in lanes}) == len(lanes)
        assert all(len(sizes) <= BINS_MAX for sizes in lanes.values())
        assert all(sum(sizes) <= budget.bytes_max or len(sizes) == 1 for sizes in lanes.values())
        steps.append(step)
        budget.bytes_max = budgets[len(steps) % len(budgets)]
    check(Plan(tuple(steps)), change)
    order = [transfer.bin_id for transfer in change.transfers()]
    for lane in {(each.source, each.target) for step in steps for each in step.transfers}:
        bins = [each.bin_id for step in steps for each in step.transfers if (each.source, each.target) == lane]
        assert bins == sorted(bins, key=order.index)


@given(changes())
def test_plans_are_the_same_each_time(change: Reassignment):
    assert optimized(change) == optimized(change)


def most(edges: Edges) -> int:
    """The size of a maximum matching, by trying all."""
    pairs = [(left, right) for left, rights in edges.items() for right in rights]
    for size in range(min(len(edges), len({right for _, right in pairs})), 0, -1):
        for chosen in combinations(pairs, size):
            if len({left for left, _ in chosen}) == len({right for _, right in chosen}) == size:
                return size
    return 0


EDGES = st.dictionaries(st.sampled_from("abcde"), st.lists(st.integers(0, 4), max_size=3, unique=True), max_size=5)


@given(EDGES, st.data())
def test_a_maximum_matching_is_as_large_as_any(edges: Edges, data: st.DataObject):
    start: dict[str, int] = {}
    for left, rights in edges.items():
        free = [right for right in rights if right not in start.values()]
        chosen = data.draw(st.sampled_from([None, *free]))
        if chosen is not None:
            start[left] = chosen
    for matching in (maximum_matching(edges), maximum_matching(edges, start)):
        assert all(right in edges[left] for left, right in matching.items())
        assert len(set(matching.values())) == len(matching) == most(edges)


def test_a_matching_along_a_long_path_needs_no_deep_stack():
    """Each vertex but the last would rather have what the next one needs."""
    size = 5000
    edges = {left: [left, left + 1] for left in range(size)} | {size: [0]}
    assert len(maximum_matching(edges)) == size + 1


@given(changes(), st.lists(st.sampled_from(["complete", "ask", "cancel", "resume"]), max_size=60), st.floats(0, 3))
def test_a_runner_sends_each_step_once_in_order_one_at_a_time(change: Reassignment, acts: list[str], gap_s: float):
    plan = batched(change, bins_max=2)
    runner, sent, completed, completed_s, cancelled = PlanRunner(plan, gap_s), list[Step](), 0, -100.0, False
    for now_s, act in enumerate([*acts, "resume", *["complete", "ask", "ask", "ask"] * len(plan.steps), "complete"]):
        if act == "complete" and completed < len(sent):
            completed += 1
            completed_s = now_s
        elif act == "cancel":
            runner.cancel()
            cancelled = True
        elif act == "resume":
            runner.resume()
            cancelled = False
        step = runner.next(now_s, completed - 1 if completed else None)
        due = completed == len(sent) < len(plan.steps) and not cancelled and now_s >= completed_s + gap_s
        assert step == (plan.steps[len(sent)] if due else None)
        if step is not None:
            sent.append(step)
        assert runner.remaining == plan.after(len(sent))
        assert runner.under_way == (sent[-1] if completed < len(sent) else None)
        assert runner.finished is (completed == len(sent) and (cancelled or len(sent) == len(plan.steps)))
        progress = runner.progress()
        assert (progress.steps_done, progress.bins_moved) == (completed, Plan(plan.steps[:completed]).bins)
    assert runner.finished
    assert tuple(sent) == plan.steps


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[WorkerId], list[WorkerId]]:
    """Owners, and the workers that stay or join."""
    owners = draw(st.lists(OWNER, max_size=24))
    return owners, sorted(draw(st.sets(OWNER, min_size=1)))


LOADS = st.one_of(st.integers(0, 20), st.integers(0, 10**9), st.floats(0, 10), st.sampled_from([0.0, 1e-9, 1e9]))


def moves(before: list[WorkerId], after: list[WorkerId]) -> int:
    return sum(one != other for one, other in zip(before, after, strict=True))


@given(clusters())
def test_counts_are_even_after_the_fewest_moves_there_can_be(cluster: tuple[list[WorkerId], list[WorkerId]]):
    owners, workers = cluster
    target = balance(owners, workers)
    counts = Counter(target)
    assert set(target) <= set(workers)
    assert max(counts[worker] for worker in workers) - min(counts[worker] for worker in workers) <= 1
    # The fewest: the workers that have the most keep one more where the number is not even.
    held = sorted((Counter(owners)[worker] for worker in workers), reverse=True)
    share, more = divmod(len(owners), len(workers))
    kept = sum(min(count, share + (index < more)) for index, count in enumerate(held))
    assert moves(owners, target) == len(owners) - kept


@given(clusters(), st.data(), st.sampled_from([0, 0.05, 0.5]))
def test_loads_are_even_as_far_as_one_move_at_a_time_can_make_them(
    cluster: tuple[list[WorkerId], list[WorkerId]], data: st.DataObject, tolerance: float
):
    owners, workers = cluster
    values = data.draw(st.lists(LOADS, min_size=len(owners), max_size=len(owners)))
    loads: dict[BinId, float] = {BinId(index): value for index, value in enumerate(values) if value != 0}
    target = balance(owners, workers, loads, tolerance=tolerance)
    assert set(target) <= set(workers)
    assert balance(owners, workers, loads, tolerance=tolerance) == target
    assert balance(target, workers, loads, tolerance=tolerance) == target
    load: dict[WorkerId, float] = dict.fromkeys(workers, 0.0)
    for index, worker in enumerate(target):
        load[worker] += loads.get(BinId(index), 0)
    mean, least = sum(load.values()) / len(workers), min(load.values())
    rounding = 1e-9 * (1 + sum(load.values()))
    for worker in workers:
        lightest = min((loads[bin_id] for bin_id in loads if target[bin_id] == worker), default=0.0)
        assert load[worker] - least <= max(tolerance * mean, lightest) + rounding
    # What has no load moves only if its owner leaves.
    for index, owner in enumerate(owners):
        if owner in workers and BinId(index) not in loads:
            assert target[index] == owner


@given(clusters(), st.data())
def test_costs_are_spread_as_balance_does_and_bins_that_cost_nothing_by_their_number(
    cluster: tuple[list[WorkerId], list[WorkerId]], data: st.DataObject
):
    owners, workers = cluster
    values = data.draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 3.0, 7.5]), min_size=len(owners), max_size=len(owners)))
    costs = {BinId(index): value for index, value in enumerate(values)}
    target, balanced = spread(owners, workers, costs), balance(owners, workers, costs)
    assert [target[index] for index, value in enumerate(values) if value] == [
        balanced[index] for index, value in enumerate(values) if value
    ]
    light = Counter(target[index] for index, value in enumerate(values) if not value)
    assert set(target) <= set(workers)
    assert max(light[worker] for worker in workers) - min(light[worker] for worker in workers) <= 1
    assert spread(target, workers, costs) == target


@given(clusters(), st.data())
def test_only_bins_of_those_that_leave_get_another_owner(
    cluster: tuple[list[WorkerId], list[WorkerId]], data: st.DataObject
):
    owners, workers = cluster
    values = data.draw(st.lists(st.sampled_from([0.0, 1.0, 7.5]), min_size=len(owners), max_size=len(owners)))
    target = rehome(owners, workers, {BinId(index): value for index, value in enumerate(values)})
    assert set(target) <= set(workers)
    assert all(now == was for was, now in zip(owners, target, strict=True) if was in workers)


@given(st.integers(2, 8), st.booleans(), st.integers(0, 2**32))
def test_balance_moves_far_less_than_a_fresh_assignment(number: int, joins: bool, seed: int):
    """From owners in turn. (Dealing anew can hit on fewer moves where there is only a handful of bins.)"""
    random = Random(seed)
    before = [WorkerId(3 * worker) for worker in range(number)]
    workers = [*before, WorkerId(100)] if joins else before[1:]
    owners = [before[index % number] for index in range(128)]
    loads = {BinId(index): random.randint(1, 20) for index in range(len(owners))}
    part, anew = dict.fromkeys(workers, 0), list(owners)
    for bin_id in sorted(loads, key=lambda bin_id: (-loads[bin_id], bin_id)):
        anew[bin_id] = min(workers, key=lambda worker: (part[worker], worker))
        part[anew[bin_id]] += loads[bin_id]
    forced = sum(owner not in workers for owner in owners)
    least, naive = moves(owners, balance(owners, workers, loads)), moves(owners, anew)
    assert least - forced <= (naive - forced) * 2 / 3


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(1, 3))
def test_bins_dealt_out_end_near_the_best_that_there_is(values: list[int], number: int):
    """Heaviest first to the least loaded is within 4/3 of the best (Graham 1969), and levelling does no harm."""
    workers = WORKERS[:number]

    def largest(assignment: Sequence[WorkerId]) -> int:
        part = Counter[WorkerId]()
        for value, worker in zip(values, assignment, strict=True):
            part[worker] += value
        return max(part.values())

    loads = {BinId(index): value for index, value in enumerate(values)}
    target = balance([WORKERS[-1]] * len(values), workers, loads, tolerance=0)
    assert largest(target) * 3 <= 4 * min(map(largest, product(workers, repeat=len(values))))
