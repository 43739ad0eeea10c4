"""Which epoch is next, and what it brings; and mistakes in what is chosen."""

from __future__ import annotations

import pytest

from framework.errors import ConfigError
from operators.commands import BinId, Move, WorkerId
from operators.job.schedule import Chosen, Successive, chosen_commands, chosen_records

MOVE = Move(BinId(3), WorkerId(1))


def test_what_an_iterator_gives_is_not_asked_for_before_its_epoch():
    asked = []

    def give():
        for thing in "ab":
            asked.append(thing)
            yield thing

    schedule = Successive(give())
    assert (schedule.take(4), schedule.after(4), asked) == ("a", 5, ["a"])
    assert (schedule.take(5), schedule.after(5)) == ("b", 6)
    assert (schedule.take(6), schedule.after(6)) == (None, None)


def test_epochs_that_somebody_chose_come_in_order_and_the_others_are_passed_over():
    schedule = Chosen({9: "c", 2: "a", 3: "b"})
    assert [schedule.after(epoch) for epoch in (0, 1)] == [2, 2]
    assert (schedule.take(1), schedule.take(2), schedule.after(2)) == (None, "a", 3)
    assert (schedule.take(3), schedule.after(3), schedule.after(7)) == ("b", 9, 9)
    assert (schedule.take(9), schedule.after(9)) == ("c", None)
    assert Chosen({}).after(0) is None


def test_what_is_chosen_is_copied_into_lists():
    assert chosen_records("words", {1: (word for word in ["tea"]), 0: {}.keys()}) == {1: ["tea"], 0: []}
    assert chosen_commands({2: (MOVE,)}) == {2: [MOVE]}


@pytest.mark.parametrize("epoch", [-1, 1.0, "1", True, None, 2**63])
def test_an_epoch_that_is_none(epoch: object):
    said = rf"has an epoch {epoch!r}; epochs are integers from 0 to 9223372036854775807"
    with pytest.raises(ConfigError, match=f"input 'words' {said}"):
        chosen_records("words", {0: [], epoch: []})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=f"commands {said}"):
        chosen_commands({epoch: [MOVE]})  # type: ignore[dict-item]


@pytest.mark.parametrize("rows", ["tea", b"tea", {"tea": 1}, 3])
def test_records_that_are_no_list(rows: object):
    with pytest.raises(ConfigError, match=r"input 'words' is given .+ at epoch 4; give a list of records"):
        chosen_records("words", {4: rows})  # type: ignore[dict-item]


def test_commands_that_are_no_instructions():
    with pytest.raises(
        ConfigError, match=r"commands has Move\(bin_id=3, worker=1, group=None\) at epoch 4; give a list"
    ):
        chosen_commands({4: MOVE})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"commands has \(3, 1\) at epoch 4, which is no instruction"):
        chosen_commands({4: [(3, 1)]})  # type: ignore[list-item]
