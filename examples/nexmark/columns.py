"""NEXMark queries on columns, where these fit: bids come as Arrow batches, and windows are kept by compiled code.

The answers are those of `queries`, in the same epochs. What is not worth compiling stays on rows: the sales of Q4, and
in Q5 and Q7 the comparison of what few rows each worker has left of a window. Windows close when all their bids are
there, and this comparison gives the answer in the epoch of the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from examples.nexmark.events import Auction, Bid, Person
from examples.nexmark.queries import House, Keep, Ranked, highest, sales
from examples.nexmark.semantics import EURO_PER_1000_DOLLARS, SELECTED_AUCTIONS, Settings
from hailer import Columns, EpochClock, Stream
from hailer import aggregates as agg

BID = {"auction": int, "bidder": int, "price": int, "date_time": int}


@dataclass(frozen=True, slots=True)
class ColumnsHouse:
    """What happens at the auction house: as rows, but for the bids, which are most of it."""

    people: Stream[Person]
    auctions: Stream[Auction]
    bids: Columns


Query = Callable[[ColumnsHouse, Keep, Settings], Columns]


def q1(house: ColumnsHouse, keep: Keep, settings: Settings) -> Columns:
    """Currency conversion: every bid, its price in euro."""

    def in_euro(bids: pa.RecordBatch) -> pa.RecordBatch:
        euro = _numbers(bids, "price") * EURO_PER_1000_DOLLARS // 1000
        return bids.set_column(2, "price", pa.array(euro))

    return house.bids.map(in_euro)


def q2(house: ColumnsHouse, keep: Keep, settings: Settings) -> Columns:
    """Selection: the bids on some auctions."""
    selected = house.bids.filter(lambda bids: pa.array(_numbers(bids, "auction") % SELECTED_AUCTIONS == 0))
    return selected.map(lambda bids: bids.select(["auction", "price"]))


def q4(house: ColumnsHouse, keep: Keep, settings: Settings) -> Columns:
    """Average price per category: over all sales so far, whenever there are new ones."""
    bids = house.bids.to_rows().map(lambda bid: Bid(*bid))
    sold = sales(House(house.people, house.auctions, bids), keep, settings).map(lambda sale: (sale[3], sale[4]))
    return sold.to_columns({"category": int, "price": int}).stateful_aggregate(
        {"average": agg.mean("price")}, key="category", control=keep.control, bins=keep.bins, name="by category"
    )


def q5(house: ColumnsHouse, keep: Keep, settings: Settings) -> Columns:
    """Hot items: in each sliding window, the auctions with the most bids."""
    counts = house.bids.sliding_window(
        {"bids": agg.count()},
        length=settings.hot_items_ms,
        step=settings.hot_items_slide_ms,
        key="auction",
        event_time="date_time",
        clock=EpochClock(settings.epoch_ms),
        control=keep.control,
        bins=keep.bins,
        name="bids per window",
    )
    hottest = counts.results.flat_map(lambda counts: _highest_in(counts, "bids", _numbers(counts, "end")))
    ranked: Stream[Ranked] = hottest.map(lambda rows: rows.select(["end", "bids", "auction"])).to_rows()
    hot = highest(ranked, keep, settings, key=_first, name="hottest of all")
    return hot.map(lambda row: (row[0], row[2], row[1])).to_columns({"window_end": int, "auction": int, "bids": int})


def q7(house: ColumnsHouse, keep: Keep, settings: Settings) -> Columns:
    """Highest bid: in each tumbling window, the bids at the highest price."""
    size_ms = settings.highest_bid_ms

    def of_batch(bids: pa.RecordBatch) -> pa.RecordBatch:
        """What may be the highest of its window: nothing that is below another of the same batch."""
        return _highest_in(bids, "price", _numbers(bids, "date_time") // size_ms)

    def of_worker(bids: pa.RecordBatch) -> pa.RecordBatch:
        """Each as often as it was bid."""
        some = _highest_in(bids, "price", _numbers(bids, "end"))
        return some.take(pa.array(np.repeat(np.arange(len(some)), _numbers(some, "times"))))

    windows = house.bids.flat_map(of_batch).tumbling_window(
        {"times": agg.count()},
        length=size_ms,
        key=["auction", "bidder", "price"],
        event_time="date_time",
        clock=EpochClock(settings.epoch_ms),
        control=keep.control,
        bins=keep.bins,
        name="highest of bins",
    )
    rows = windows.results.flat_map(of_worker).to_rows()
    ranked: Stream[Ranked] = rows.map(lambda row: (row[4], row[2], (row[0], row[1])))
    best = highest(ranked, keep, settings, key=_first, name="highest of all")
    flat = best.map(lambda row: (row[0], *row[2], row[1]))
    return flat.to_columns({"window_end": int, "auction": int, "bidder": int, "price": int})


QUERIES: dict[str, Query] = {"q1": q1, "q2": q2, "q4": q4, "q5": q5, "q7": q7}


def bids_of(events: list[Any]) -> pa.RecordBatch:
    """The bids among events, as columns."""
    bids = [event for event in events if isinstance(event, Bid)]
    columns = zip(*bids, strict=True) if bids else [()] * len(BID)
    return pa.record_batch({name: pa.array(column, pa.int64()) for name, column in zip(BID, columns, strict=True)})


def _highest_in(batch: pa.RecordBatch, rank: str, window_of_row: np.ndarray[Any, Any]) -> pa.RecordBatch:
    """Of each window, the rows of a batch that rank highest."""
    ranks = _numbers(batch, rank)
    windows, number = np.unique(window_of_row, return_inverse=True)
    best = np.zeros(len(windows), np.int64)
    np.maximum.at(best, number, ranks)
    return batch.filter(pa.array(ranks == best[number]))


def _numbers(batch: pa.RecordBatch, column: str) -> np.ndarray[Any, Any]:
    numbers: np.ndarray[Any, Any] = batch[column].to_numpy()
    return numbers


def _first(record: Any) -> Any:
    return record[0]
