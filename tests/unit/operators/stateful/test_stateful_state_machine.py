"""`stateful_state_machine`: the fold of `state_machine`, on bins."""

from __future__ import annotations

from typing import Any

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example
from framework.membership.members import WorkerId
from operators import DISCARD, BinOptions, empty, iterator_source, to_stream
from operators.errors import FoldMisreturned, RecordNotPair, SharedInitial
from routing.bins import BinId
from routing.commands import Control, Move, Refused
from routing.errors import BinCountInvalid
from tests.unit.operators.cluster import SEEDS, merged, run


def count(key: str, n: int, total: int) -> tuple[Any, list[tuple[str, int]]]:
    total += n
    return (DISCARD if total >= 3 else total), [(key, total)]


def test_states_are_kept_and_discarded():
    pairs = [("a", 1), ("b", 1), ("a", 1), ("a", 1), ("a", 1)]
    rows = example(
        lambda scope: (
            to_stream(scope, pairs).stateful_state_machine(count, initial=0, control=empty(scope), bins=4).extract()
        )
    ).rows()
    assert rows == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("a", 1)]


@pytest.mark.parametrize("bins", [1, 2, 256, 65536])
def test_the_number_of_bins_does_not_matter(bins: int):
    pairs = [(f"k{number % 7}", 1) for number in range(50)]

    def build(scope: Any) -> Any:
        reference = to_stream(scope, pairs).state_machine(count, initial=0)
        counts = to_stream(scope, pairs).stateful_state_machine(count, initial=0, control=empty(scope), bins=bins)
        return counts.verify(reference).extract()

    assert len(example(build).rows()) == 50


@pytest.mark.parametrize("bins", [0, 3, 2**17])
def test_a_number_of_bins_that_cannot_be(bins: int):
    with pytest.raises(BinCountInvalid):
        example(
            lambda scope: to_stream(scope, []).stateful_state_machine(count, initial=0, control=empty(scope), bins=bins)
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_commands_move_bins_and_bad_ones_are_refused_everywhere(seed: int):
    commands = [(1, [Control(0, 1, Move(BinId(bin_id), WorkerId(2)))]) for bin_id in (0,)] + [
        (2, [Control(1, 1, Move(BinId(99), WorkerId(0)))]),
        (3, [Control(2, 1, Move(BinId(1), WorkerId(0)))]),
    ]
    reports: list[Any] = []

    def build(scope: Any) -> Any:
        first = scope.worker.index == 0
        control = iterator_source(scope, commands if first else []).broadcast()
        words = iterator_source(scope, [(epoch, [("a", 1), ("b", 1), ("c", 1)]) for epoch in range(5)])
        counts = words.stateful_state_machine(
            count, initial=0, control=control, bins=BinOptions(2, report=reports.append)
        )
        return counts.verify(words.state_machine(count, initial=0)).extract()

    totals = merged(run(build, seed=seed))
    assert [len(rows) for rows in totals.values()] == [9] * 5
    refusals = [report for report in reports if isinstance(report, Refused)]
    assert [refusal.sequence for refusal in refusals] == [1, 1, 1]
    assert all("99" in refusal.reason for refusal in refusals)


@pytest.mark.parametrize(
    ("pairs", "fold", "error"),
    [
        (["no pair"], count, RecordNotPair),
        ([("a", 1)], lambda key, value, state: state, FoldMisreturned),
        ([("a", 1)], lambda key, value, state: 1 // 0, ZeroDivisionError),
    ],
)
def test_what_goes_wrong_is_named(pairs: list[Any], fold: Any, error: type[Exception]):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, pairs).stateful_state_machine(fold, initial=0, control=empty(scope)))
    assert isinstance(caught.value.__cause__, error)


def test_an_initial_state_that_keys_would_share():
    with pytest.raises(SharedInitial):
        example(lambda scope: to_stream(scope, []).stateful_state_machine(count, initial=[], control=empty(scope)))
