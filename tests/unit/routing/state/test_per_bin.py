"""The timers of a bin travel like its state, in pieces of bounded size, and leave nothing behind."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from framework.membership.members import WorkerId
from framework.wire import codec
from routing.bins import BinId
from routing.migration.transfer import Chunk, ShippedTimers, Shipper
from routing.state.per_bin import PerBinState
from routing.state.timers import PendingTimers

BIN = BinId(3)
ITEM_BYTES_MAX = 40
"""More than one item takes by itself."""


@pytest.mark.parametrize("state", [{"a": 1}, ["a", 1], None])
@pytest.mark.parametrize("chunk_bytes_max", [1, 100, 100_000])
def test_many_timers_arrive_in_pieces_of_bounded_size(state: Any, chunk_bytes_max: int):
    leaves, arrives = PendingTimers(), PendingTimers()
    here, there = PerBinState(lambda: copy(state), leaves), PerBinState(dict, arrives)
    for n in range(200):
        here.bin_at(BIN, 5).put_off(5 + n % 7, f"item {n}")
    shipper = Shipper(WorkerId(0), here, name="it", chunk_bytes_max=chunk_bytes_max)
    shipper.ship(5, BIN, WorkerId(1))
    sizes = []
    for _, message in shipper.due():
        match message:
            case Chunk(payload=payload):
                there.install(BIN, payload)
            case ShippedTimers(payload=payload):
                there.install_timers(BIN, codec.decode_rows(payload))
                sizes.append(len(payload))
    assert max(sizes) <= max(chunk_bytes_max, ITEM_BYTES_MAX)
    assert there.bin_at(BIN, 5).state == state
    assert arrives.extract(BIN) == [(5 + n % 7, f"item {n}") for n in sorted(range(200), key=lambda n: n % 7)]
    assert leaves.first() is None


def test_a_bin_that_comes_and_goes_leaves_nothing_behind():
    timers = PendingTimers()
    timers.set(BinId(1), 5, "soon")
    for _ in range(100):
        timers.install(BIN, [(1000, "late")])
        assert timers.first() == 5
        assert timers.extract(BIN) == [(1000, "late")]
    assert len(timers._order) == 2
    timers.install(BIN, [(1000, "late")])
    assert timers.pop_due(5) == [(BinId(1), ["soon"])]
    assert timers.first() == 1000
    assert timers.pop_due(1000) == [(BIN, ["late"])]
    assert timers.first() is None


def test_a_dictionary_that_was_emptied_arrives_empty():
    here, there = (PerBinState(lambda: {"new": True}, PendingTimers()) for _ in range(2))
    here.bin_at(BIN, 5).state.clear()
    for chunk in here.extract(BIN, 100):
        there.install(BIN, chunk)
    assert there.bin_at(BIN, 5).state == {}


def test_an_entry_of_a_dictionary_has_a_size_and_that_of_any_other_state_none():
    state = PerBinState(dict, PendingTimers())
    assert state.entry_bytes() == 0
    state.bin_at(BIN, 5).state.update(dict.fromkeys(range(50), "x" * 100))
    assert 100 < state.entry_bytes() < 115
    other = PerBinState(list, PendingTimers())
    other.bin_at(BIN, 5).state.extend(["x" * 100] * 50)
    assert other.entry_bytes() == 0
