"""Queries on columns equal their twins on rows and the oracle, epoch by epoch, where many bids are alike."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from examples.nexmark import columns, oracle, queries
from examples.nexmark.events import Auction, Bid, Event
from examples.nexmark.generator import Generator
from examples.nexmark.semantics import Settings
from framework.launch.execute import execute
from framework.worker.worker import Worker
from operators import ControlInput, Input
from operators.columns import ColumnInput

SETTINGS = Settings(epoch_ms=10, hot_items_ms=30, hot_items_slide_ms=10, highest_bid_ms=15)


def alike(seed: int) -> list[Event]:
    """Few auctions, bidders and prices: the same bid comes several times in a window, and many are highest."""
    random = Random(seed)
    auctions: list[Event] = [Auction(120 + id, "", "", 0, 1, 0, 8 * (id + 1), id % 2, id % 3) for id in range(6)]
    prices = [n // 40 + random.randrange(1, 4) for n in range(200)]
    return auctions + [Bid(random.randrange(120, 126), random.randrange(2), prices[n], n // 3) for n in range(200)]


def answers(query: str, events: list[Event]) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    def main(worker: Worker) -> Any:
        people, auctions, bids = Input[Any]("people"), Input[Any]("auctions"), Input[Any]("bids")
        batches, control = ColumnInput(columns.BID, "batches"), ControlInput()
        with worker.dataflow() as scope:
            house = queries.House(people.stream(scope), auctions.stream(scope), bids.stream(scope))
            keep = queries.Keep(control.stream(scope).broadcast(), 8)
            on_rows = queries.QUERIES[query](house, keep, SETTINGS).extract()
            of_columns = columns.ColumnsHouse(house.people, house.auctions, batches.stream(scope))
            on_columns = columns.QUERIES[query](of_columns, keep, SETTINGS).extract()
        for epoch in range(SETTINGS.epoch(events[-1].date_time) + 1):
            now = [event for event in events if SETTINGS.epoch(event.date_time) == epoch]
            auctions.send_batch([event for event in now if isinstance(event, Auction)])
            bids.send_batch([event for event in now if isinstance(event, Bid)])
            for half in (now[::2], now[1::2]):
                batches.send(columns.bids_of(half))
            for input in (people, auctions, bids, batches, control):
                input.advance_to(epoch + 1)
        worker.complete()
        return on_rows, on_columns

    [found] = execute(main)
    return tuple({time: sorted(rows) for time, rows in one.by_time().items()} for one in found)  # type: ignore[return-value]


@pytest.mark.parametrize("query", columns.QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_query_on_columns_equals_that_on_rows_and_the_oracle(query: str, seed: int):
    events = alike(seed)
    on_rows, on_columns = answers(query, events)
    assert on_columns == on_rows == getattr(oracle, query)(events, SETTINGS)
    assert sum(map(len, on_columns.values())) > 5


def test_bids_are_found_among_events():
    events = Generator().events(0, 60)
    bids = [event for event in events if isinstance(event, Bid)]
    assert [Bid(*row.values()) for row in columns.bids_of(events).to_pylist()] == bids
    assert columns.bids_of([]).num_rows == 0
    assert columns.bids_of([]).schema == columns.bids_of(events).schema
