"""Bins leave in order, in pieces, and never too much at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from framework.membership.members import WorkerId
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.load import LoadMeter, Sampling
from routing.migration.transfer import (
    MESSAGE_OVERHEAD_BYTES,
    Ack,
    Chunk,
    Prepare,
    Reassembly,
    ShippedTimers,
    Shipper,
    StateMessage,
    acknowledge,
    size_of,
)
from routing.state.backend import BinState
from routing.state.errors import UnencodableState
from routing.state.keyed import KeyedState
from routing.state.memory import MemoryStore
from routing.state.per_bin import PerBinState
from routing.state.timers import PendingTimers

ME, YOU = WorkerId(0), WorkerId(7)


class Pieces:
    """A state whose bins are what a test says."""

    def __init__(self, bins: dict[int, list[bytes]], put_off: list[tuple[int, Any]] | None = None) -> None:
        self.pieces = bins
        self.put_off = put_off or []

    def bins(self) -> dict[BinId, int]:
        return {BinId(bin_id): len(pieces) for bin_id, pieces in self.pieces.items()}

    def must_travel(self, operator: str) -> None:
        pass

    def obstacle(self, bin_id: BinId) -> str | None:
        return None

    def entry_bytes(self) -> int:
        return 0

    def extract(self, bin_id: BinId, chunk_bytes_max: int) -> Iterator[bytes]:
        yield from self.pieces.pop(bin_id)

    def install(self, bin_id: BinId, chunk: bytes) -> None:
        self.pieces.setdefault(bin_id, []).append(chunk)

    def extract_timers(self, bin_id: BinId) -> list[tuple[int, Any]]:
        return self.put_off

    def install_timers(self, bin_id: BinId, items: list[tuple[int, Any]]) -> None:
        self.put_off = items

    def close(self) -> None:
        self.pieces.clear()


def test_a_bin_takes_along_how_many_records_come_to_it():
    load = LoadMeter([Sampling(lambda _: [BinId(3)], 1)], iter([0.0, 0.0, 2.0, 2.0, 2.0, 2.0]).__next__)
    load.note(0, [0] * 10)
    shipper = Shipper(ME, Pieces({3: []}), name="it", load=load)
    shipper.ship(5, BinId(3), YOU)
    assert next(shipper.due()) == (5, Prepare(YOU, ME, BinId(3), records_per_s=5.0))
    assert load.records_per_s() == {}


def test_prepare_chunks_and_what_was_put_off_in_this_order():
    shipper = Shipper(ME, Pieces({3: [b"one", b"two"], 4: []}, [(9, "later")]), name="it")
    shipper.ship(5, BinId(3), YOU)
    shipper.ship(5, BinId(4), YOU)
    put_off = codec.encode_rows([(9, "later")])
    assert list(shipper.due()) == [
        (5, Prepare(YOU, ME, BinId(3))),
        (5, Chunk(YOU, ME, BinId(3), b"one")),
        (5, Chunk(YOU, ME, BinId(3), b"two")),
        (5, ShippedTimers(YOU, ME, BinId(3), put_off)),
        (5, Prepare(YOU, ME, BinId(4))),
        (5, ShippedTimers(YOU, ME, BinId(4), put_off)),
    ]
    assert shipper.shipping_at() is None


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 35])
def test_a_chunk_of_one_large_entry_is_cut_and_put_together_again(size: int):
    """Two bins, to two workers, one behind the other; and what was put off."""
    payload, item = bytes(range(size)), "x" * size
    shipper = Shipper(ME, Pieces({3: [payload, b"two"], 4: [payload]}, [(9, item)]), name="it", piece_bytes_max=10)
    shipper.ship(5, BinId(3), YOU)
    shipper.ship(5, BinId(4), WorkerId(8))
    messages = [message for _, message in shipper.due()]
    assert all(size_of(message) <= MESSAGE_OVERHEAD_BYTES + 10 for message in messages)
    arriving = Reassembly()
    arrived = [
        (message.bin_id, type(message), whole)
        for message in messages
        if not isinstance(message, Prepare) and (whole := arriving.add(message)) is not None
    ]
    put_off = codec.encode_rows([(9, item)])
    assert arrived == [
        (3, Chunk, payload),
        (3, Chunk, b"two"),
        (3, ShippedTimers, put_off),
        (4, Chunk, payload),
        (4, ShippedTimers, put_off),
    ]


@pytest.mark.parametrize("limit", [1, 200, 1000])
def test_what_is_under_way_stays_below_the_limit_unless_one_message_exceeds_it(limit: int):
    shipper = Shipper(ME, Pieces({1: [b"x" * 100] * 20}), name="it", in_flight_bytes_max=limit)
    shipper.ship(0, BinId(1), YOU)
    sent: list[StateMessage] = []
    rounds = 0
    while shipper.shipping_at() is not None:
        under_way = [message for _, message in shipper.due()]
        total = sum(map(size_of, under_way))
        assert total == shipper.in_flight_bytes
        assert total <= limit or len(under_way) == 1
        for message in under_way:
            shipper.acknowledged(Ack(ME, size_of(message)).size)
        sent += under_way
        rounds += 1
    assert len(sent) == 22
    assert rounds >= sum(map(size_of, sent)) // max(limit, 164)


def test_nothing_of_a_bin_is_taken_out_before_it_may_leave():
    """The state of a bin that waits for its turn stays in the store: memory does not hold it twice."""
    bin_state = Pieces({1: [b"x" * 100], 2: [b"y"]})
    shipper = Shipper(ME, bin_state, name="it", in_flight_bytes_max=1)
    shipper.ship(0, BinId(1), YOU)
    shipper.ship(0, BinId(2), YOU)
    assert len(list(shipper.due())) == 1
    assert 2 in bin_state.bins()


def move(chunks: Iterator[bytes], install: Any, bin_id: BinId, chunk_bytes_max: int) -> int:
    moved = list(chunks)
    assert all(len(chunk) <= chunk_bytes_max + 1 for chunk in moved) or chunk_bytes_max < 60
    for chunk in moved:
        install(bin_id, chunk)
    return len(moved)


@pytest.mark.parametrize("chunk_bytes_max", [1, 60, 10_000])
def test_a_bin_of_keys_arrives_whole(chunk_bytes_max: int):
    bins = Bins(4)
    source, target = MemoryStore(bins), MemoryStore(bins)
    keys = [f"key {number}" for number in range(200)]
    states = source.begin(keys)
    states.update({key: len(key) for key in keys})
    source.end(states, born=keys, changed=keys, gone=[])
    held = source.bins()
    assert sum(held.values()) == 200
    for bin_id in list(held):
        chunks = KeyedState(source, PendingTimers()).extract(bin_id, chunk_bytes_max)
        assert move(chunks, target.install, bin_id, chunk_bytes_max) >= 1
    assert source.bins() == {}
    assert target.bins() == held
    arrived = target.begin(keys)
    assert {key: arrived[key] for key in keys} == {key: len(key) for key in keys}


@pytest.mark.parametrize("state", [{}, {"a": 1, "b": [2]}, 17, "text" * 1000, [1, 2, 3], None, {1: {2: 3}}])
@pytest.mark.parametrize("chunk_bytes_max", [1, 10_000])
def test_a_state_of_ones_own_arrives_as_it_was(state: Any, chunk_bytes_max: int):
    bin_id = BinId(3)
    source, target = PerBinState(lambda: None, PendingTimers()), PerBinState(lambda: None, PendingTimers())
    source.bin_at(bin_id, 0).state = state if type(state) is not dict else dict(state)
    source.bin_at(bin_id, 0).put_off(4, "item")
    for chunk in source.extract(bin_id, chunk_bytes_max):
        target.install(bin_id, chunk)
    target.install_timers(bin_id, source.extract_timers(bin_id))
    assert source.bins() == {}
    assert target.bins() == {bin_id: len(state) if isinstance(state, dict) else 1}
    assert target.bin_at(bin_id, 4).state == state
    assert type(target.bin_at(bin_id, 4).state) is type(state)


def test_a_bin_that_was_never_used_does_not_arrive():
    source, target = PerBinState(dict, PendingTimers()), PerBinState(dict, PendingTimers())
    assert list(source.extract(BinId(1), 100)) == []
    target.install_timers(BinId(1), source.extract_timers(BinId(1)))
    assert target.bins() == {}


def test_messages_of_one_sender_are_acknowledged_together():
    messages: list[StateMessage] = [
        Prepare(ME, YOU, BinId(1)),
        Chunk(ME, YOU, BinId(1), b"abc"),
        Prepare(ME, WorkerId(3), BinId(2)),
        ShippedTimers(ME, YOU, BinId(1), b"d"),
    ]
    assert acknowledge(messages) == [
        Ack(YOU, 3 * MESSAGE_OVERHEAD_BYTES + 4),
        Ack(WorkerId(3), MESSAGE_OVERHEAD_BYTES),
    ]


REMEDY = r"; make it of tuples, .*, or register a codec with `codec.register`$"


def of_keys() -> BinState:
    bins, timers = Bins(1), PendingTimers()
    store = MemoryStore(bins)
    states = store.begin(["a", "k"])
    states.update(a=1, k=object())
    store.end(states, born=["a", "k"], changed=["a", "k"], gone=[])
    return KeyedState(store, timers)


def of_bins(state: Any, put_off: Any = None) -> BinState:
    bin_state = PerBinState(lambda: state, PendingTimers())
    used = bin_state.bin_at(BinId(0), 0)
    if put_off is not None:
        used.put_off(4, put_off)
    return bin_state


@pytest.mark.parametrize(
    ("make", "culprit"),
    [
        (of_keys, "the state of key 'k', a object, cannot be encoded"),
        (lambda: of_bins({"a": 1, "k": {2: object()}}), "the state of key 'k', a dict, cannot be encoded: a object"),
        (lambda: of_bins(object()), "its state, a object, cannot be encoded"),
        (lambda: of_bins(0, put_off=object()), "what was put off until 4, a object, cannot be encoded"),
    ],
)
@pytest.mark.parametrize("chunk_bytes_max", [1, 10_000])
def test_what_cannot_be_encoded_is_named(make: Callable[[], BinState], culprit: str, chunk_bytes_max: int):
    bin_state = make()
    before = bin_state.bins()
    assert re.match(f"{culprit}{REMEDY}", bin_state.obstacle(BinId(0)) or "")
    assert bin_state.bins() == before
    shipper = Shipper(ME, bin_state, name="counts", chunk_bytes_max=chunk_bytes_max)
    shipper.ship(0, BinId(0), YOU)
    with pytest.raises(UnencodableState, match=f"^operator 'counts' cannot ship bin 0 to worker 7: {culprit}{REMEDY}"):
        list(shipper.due())
