"""What workers say one by one is said of the job."""

from __future__ import annotations

from framework.membership.members import WorkerId
from framework.progress.order import Product
from operators.control.job_messages import OperatorRow, WorkersBlocker
from operators.control.summary import (
    bin_tables,
    late_records,
    least_blockers,
    least_frontier,
    movable,
    operator_rows,
    spread_plans,
)
from operators.control.worker_messages import BinTable, LateRecords, MovableBins, OperatorActivity, WorkerStatus
from routing.bins import BinId
from routing.load import BinWeight
from routing.migration.goals import Pace

ZERO, ONE = WorkerId(0), WorkerId(1)


def answer(metered_s: float, records: int, busy_s: float) -> WorkerStatus:
    operator = OperatorActivity("0.2", "map", (7,), records, busy_s)
    return WorkerStatus((7,), (ZERO, ONE), False, False, metered_s, (operator,), (), (), None)


def test_rates_are_what_was_counted_between_two_looks_added_over_workers():
    before = {ZERO: answer(10.0, 500, 1.0), ONE: answer(4.0, 0, 0.0)}
    after = {ZERO: answer(10.5, 700, 1.25), ONE: answer(6.0, 100, 1.0)}
    assert operator_rows(before, after) == (
        OperatorRow(path="0.2", name="map", frontier=(7,), records_per_s=400.0 + 50.0, busy=(0.5 + 0.5) / 2),
    )


def test_a_worker_that_was_not_heard_before_counts_from_when_its_meter_began():
    assert operator_rows({}, {ZERO: answer(2.0, 100, 0.0)})[0].records_per_s == 50.0
    assert operator_rows({}, {ZERO: answer(0.0, 0, 0.0)})[0].records_per_s == 0.0


def test_a_meter_that_began_again_gives_no_rate_below_nothing():
    before, after = {ZERO: answer(50.0, 9000, 9.0)}, {ZERO: answer(1.0, 10, 0.1)}
    assert (operator_rows(before, after)[0].records_per_s, operator_rows(before, after)[0].busy) == (0.0, 0.0)


def test_the_frontier_of_a_job_is_the_least_of_its_workers():
    assert least_frontier([(5,), (3,), ()]) == (3,)
    assert least_frontier([(Product(0, 5),), (Product(1, 0),)]) == (Product(0, 5), Product(1, 0))
    assert least_frontier([]) == ()


def test_who_holds_a_later_time_holds_nothing_back():
    early, late, other = (
        WorkersBlocker("0.2", "map", "capability", 0, 0, 1, arrives, ("map",), worker=WorkerId(worker))
        for worker, arrives in ((0, 3), (1, 4), (2, 3))
    )
    assert least_blockers([early, late, other]) == (early, other)


def test_keys_of_a_bin_add_up_over_workers():
    def bins(keys: dict[BinId, int]) -> WorkerStatus:
        table = BinTable("0.5", "count", (ZERO, ONE), (), keys)
        return WorkerStatus((), (ZERO, ONE), False, False, 0.0, (), (table,), (), None)

    [row] = bin_tables([bins({BinId(0): 3}), bins({BinId(1): 4})])
    assert (row.owners, row.keys) == ((0, 1), {0: 3, 1: 4})


def test_late_records_of_an_operator_add_up_over_workers():
    def late(*counts: LateRecords) -> WorkerStatus:
        return WorkerStatus((), (ZERO, ONE), False, False, 0.0, (), (), counts, None)

    assert late_records(
        [
            late(LateRecords("0.3", "hourly", 2, 10), LateRecords("0.7", "visits", 0, 10)),
            late(LateRecords("0.3", "hourly", 1, 4), LateRecords("0.7", "visits", 0, 6)),
        ]
    ) == (LateRecords("0.3", "hourly", 3, 14), LateRecords("0.7", "visits", 0, 16))


def test_what_bins_weigh_adds_up_over_workers_and_owners_are_those_that_one_of_them_sees():
    def said(group: str, weights: dict[int, int]) -> MovableBins:
        weighed = {BinId(bin_id): BinWeight(keys, 10 * keys, 0.5) for bin_id, keys in weights.items()}
        return MovableBins(group, (ZERO, ZERO), (ZERO, ONE), weighed)

    mine = [said("few", {0: 1}), said("many", {0: 7})]
    few, many = movable(mine, [mine, [said("few", {0: 2, 1: 3}), said("many", {})]])
    assert few == MovableBins(
        "few", (ZERO, ZERO), (ZERO, ONE), {BinId(0): BinWeight(3, 30, 1.0), BinId(1): BinWeight(3, 30, 0.5)}
    )
    assert many.weights == {BinId(0): BinWeight(7, 70, 0.5)}


def test_bins_would_be_spread_over_those_that_stay_and_come():
    weights = {BinId(index): BinWeight(1, 10) for index in range(6)}
    group = MovableBins("all", (ZERO, ZERO, ZERO, ONE, ONE, ONE), (ZERO, ONE), weights)
    two = WorkerId(2)
    plan = spread_plans([group], Pace("all-at-once"), joining=[two], leaving={ONE})["all"]
    assert plan.apply(group.owners).count(two) == plan.apply(group.owners).count(ZERO) == 3
    assert (plan.bins, plan.state_bytes) == (3, 30)
    assert spread_plans([group], Pace())["all"].bins == 0
