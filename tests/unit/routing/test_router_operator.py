"""F tells another worker what the bins on its own weigh, when it is commanded to."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input, Probe
from routing.bins import BinId, Bins
from routing.commands import Refused, Weigh, Weighing
from routing.load import BinWeight, WeighedBins
from routing.registry import BinnedOperator, operators_on
from routing.router_operator import ControlReport

WORDS = [f"word {number}" for number in range(40)]
WORKERS = 3


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def waits(probe: Probe, operator: BinnedOperator, epoch: int) -> bool:
    return probe.less_than(epoch) or operator.heard() < epoch


def weighed(*targets: int) -> tuple[list[list[WeighedBins | None]], list[ControlReport]]:
    """What each worker was told after each epoch, at which the workers were to tell one of them; and the reports."""
    reports: list[ControlReport] = []

    def main(worker: Worker) -> list[WeighedBins | None]:
        words, control, probe = Input[str](), ControlInput(), Probe()
        options = BinOptions(8, report=lambda said: reports.append(said) if not worker.index else None)
        with worker.dataflow() as scope:
            pairs = words.stream(scope).map(lambda word: (word, 1))
            commands = control.stream(scope).broadcast()
            pairs.stateful_state_machine(count, initial=0, control=commands, bins=options).probe(probe)
        [operator] = operators_on(worker)
        told = []
        for epoch, target in enumerate(targets):
            if worker.index == 0:
                words.send_batch(WORDS if not epoch else [])
                control.send(Weigh(WorkerId(target)))
            words.advance_to(epoch + 1)
            control.advance_to(epoch + 1)
            worker.step_while(partial(waits, probe, operator, epoch + 1))
            told.append(operator.weighed())
        words.close()
        control.close()
        worker.complete()
        return told

    return execute(main, Config(threads=WORKERS)), reports


def test_every_worker_tells_the_one_that_is_named_and_weights_add_up():
    (first, second, third), reports = weighed(0, 1, 1)
    assert third == [None, None, None]
    assert second[0] is None
    assert [told and told.time for told in first] == [0, 0, 0]
    assert [told and told.time for told in second[1:]] == [1, 2]
    last = second[-1]
    assert last is not None
    assert {bin_id: weight.keys for bin_id, weight in last.weights.items()} == Counter(map(Bins(8).of, WORDS))
    sizes = {weight.state_bytes / weight.keys for weight in last.weights.values()}
    assert all(8 < size < 40 for size in sizes), "an entry is a word of eight letters and a number"
    assert [said for said in reports if isinstance(said, Weighing)] == [
        Weighing(time, time, WorkerId(target)) for time, target in enumerate((0, 1, 1))
    ]


def test_who_may_own_no_bins_is_told_nothing():
    told, [refused] = weighed(WORKERS)
    assert isinstance(refused, Refused)
    assert told == [[None]] * WORKERS


@pytest.mark.parametrize("records", [1024, 8192])
def test_how_many_records_come_to_a_bin_is_part_of_it(records: int):
    def main(worker: Worker) -> dict[BinId, BinWeight]:
        words, control, probe = Input[str](), ControlInput(), Probe()
        with worker.dataflow() as scope:
            pairs = words.stream(scope).map(lambda word: (word, 1))
            commands = control.stream(scope).broadcast()
            pairs.stateful_state_machine(count, initial=0, control=commands, bins=4).probe(probe)
        [operator] = operators_on(worker)
        words.send_batch(["tea"] * records)
        words.advance_to(1)
        control.advance_to(1)
        worker.step_while(lambda: probe.less_than(1))
        weights = operator.weigh()
        words.close()
        control.close()
        worker.complete()
        return weights

    [weights] = execute(main)
    [(bin_id, weight)] = weights.items()
    assert (bin_id, weight.keys) == (Bins(4).of("tea"), 1)
    assert weight.records_per_s > records, "they came in less than a second"
