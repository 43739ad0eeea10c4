"""The right answers: queries 1 to 8 as plain programs over a list of all events, without dataflow, workers or time.

Each follows the benchmark's definition as `semantics` states it, and looks at all events at once, in whatever order.
The answer is `{epoch: sorted rows}`, for the epochs that have rows; so

    {epoch: sorted(rows) for epoch, rows in extracted.by_time().items()} == q5(events, settings)

compares a dataflow's output with it, epoch by epoch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from examples.nexmark.events import Auction, Bid, Event, Person
from examples.nexmark.semantics import (
    LAST_SALES,
    LOCAL_CATEGORY,
    LOCAL_STATES,
    SELECTED_AUCTIONS,
    AuctionPrice,
    CategoryAverage,
    HighestBid,
    HotItem,
    LocalItem,
    NewSeller,
    SellerAverage,
    Settings,
    euro,
    window_end,
    window_ends,
)

Row = TypeVar("Row", bound=tuple[Any, ...])
Kind = TypeVar("Kind", Person, Auction, Bid)
Answer = dict[int, list[Row]]
"""The rows of each epoch, sorted."""


def q1(events: Sequence[Event], settings: Settings) -> Answer[Bid]:
    """Currency conversion: every bid, its price in euro."""
    return _answer((settings.epoch(bid.date_time), bid._replace(price=euro(bid.price))) for bid in _only(Bid, events))


def q2(events: Sequence[Event], settings: Settings) -> Answer[AuctionPrice]:
    """Selection: the bids on some auctions."""
    return _answer(
        (settings.epoch(bid.date_time), AuctionPrice(bid.auction, bid.price))
        for bid in _only(Bid, events)
        if bid.auction % SELECTED_AUCTIONS == 0
    )


def q3(events: Sequence[Event], settings: Settings) -> Answer[LocalItem]:
    """Local item suggestion: auctions of one category by sellers from some states, known once both are."""
    people = {person.id: person for person in _only(Person, events) if person.state in LOCAL_STATES}
    return _answer(
        (
            settings.epoch(max(person.date_time, auction.date_time)),
            LocalItem(person.name, person.city, person.state, auction.id),
        )
        for auction in _only(Auction, events)
        if auction.category == LOCAL_CATEGORY
        for person in [people.get(auction.seller)]
        if person is not None
    )


def q4(events: Sequence[Event], settings: Settings) -> Answer[CategoryAverage]:
    """Average price per category: over all sales so far, whenever there are new ones."""
    return _answer(
        (epoch, CategoryAverage(category, _mean(history)))
        for category, epoch, history in _histories(events, settings, key=lambda sale: sale.category)
    )


def q5(events: Sequence[Event], settings: Settings) -> Answer[HotItem]:
    """Hot items: in each sliding window, the auctions with the most bids."""
    bids: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for bid in _only(Bid, events):
        for end in window_ends(bid.date_time, settings.hot_items_ms, settings.hot_items_slide_ms):
            bids[end][bid.auction] += 1
    return _answer(
        (settings.epoch(end), HotItem(end, auction, count))
        for end, counts in bids.items()
        for most in [max(counts.values())]
        for auction, count in counts.items()
        if count == most
    )


def q6(events: Sequence[Event], settings: Settings) -> Answer[SellerAverage]:
    """Average selling price by seller: over the last ten sales, whenever there are new ones."""
    return _answer(
        (epoch, SellerAverage(seller, _mean(history[-LAST_SALES:])))
        for seller, epoch, history in _histories(events, settings, key=lambda sale: sale.seller)
    )


def q7(events: Sequence[Event], settings: Settings) -> Answer[HighestBid]:
    """Highest bid: in each tumbling window, the bids at the highest price."""
    bids: defaultdict[int, list[Bid]] = defaultdict(list)
    for bid in _only(Bid, events):
        bids[window_end(bid.date_time, settings.highest_bid_ms)].append(bid)
    return _answer(
        (settings.epoch(end), HighestBid(end, bid.auction, bid.bidder, bid.price))
        for end, in_window in bids.items()
        for highest in [max(bid.price for bid in in_window)]
        for bid in in_window
        if bid.price == highest
    )


def q8(events: Sequence[Event], settings: Settings) -> Answer[NewSeller]:
    """Monitor new users: the auctions that people opened in the tumbling window in which they registered."""
    size_ms = settings.new_sellers_ms
    people = {person.id: person for person in _only(Person, events)}
    return _answer(
        (settings.epoch(end), NewSeller(end, person.id, person.name, auction.reserve))
        for auction in _only(Auction, events)
        for person in [people.get(auction.seller)]
        if person is not None
        for end in [window_end(auction.date_time, size_ms)]
        if window_end(person.date_time, size_ms) == end
    )


class Sale(NamedTuple):
    """An auction that ended with a winner. Sales sort by when they happened."""

    expires: int
    auction: int
    seller: int
    category: int
    price: int


def sales(events: Sequence[Event]) -> list[Sale]:
    """The auctions that end with a valid bid, in the order in which they end."""
    bids: defaultdict[int, list[Bid]] = defaultdict(list)
    for bid in _only(Bid, events):
        bids[bid.auction].append(bid)
    sold = []
    for auction in _only(Auction, events):
        valid = [
            bid.price
            for bid in bids[auction.id]
            if auction.date_time <= bid.date_time < auction.expires and bid.price >= auction.reserve
        ]
        if valid:
            sold.append(Sale(auction.expires, auction.id, auction.seller, auction.category, max(valid)))
    return sorted(sold)


def _histories(
    events: Sequence[Event], settings: Settings, *, key: Callable[[Sale], int]
) -> Iterable[tuple[int, int, list[Sale]]]:
    """For each key and each epoch in which it had a sale: the key, the epoch, and all its sales so far."""
    histories: defaultdict[int, list[Sale]] = defaultdict(list)
    for epoch, new in groupby(sales(events), key=lambda sale: settings.epoch(sale.expires)):
        changed = set()
        for sale in new:
            histories[key(sale)].append(sale)
            changed.add(key(sale))
        for value in changed:
            yield value, epoch, histories[value]


def _mean(history: list[Sale]) -> float:
    return sum(sale.price for sale in history) / len(history)


def _only(kind: type[Kind], events: Sequence[Event]) -> Iterable[Kind]:
    return (event for event in events if isinstance(event, kind))


def _answer(rows: Iterable[tuple[int, Row]]) -> Answer[Row]:
    answer: defaultdict[int, list[Row]] = defaultdict(list)
    for epoch, row in rows:
        answer[epoch].append(row)
    return {epoch: sorted(answer[epoch]) for epoch in sorted(answer)}
