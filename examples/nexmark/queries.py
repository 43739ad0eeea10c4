"""NEXMark queries 1 to 8 as dataflows, whose state is on bins that move while the stream goes on.

What each query answers, and in which epoch, is in `semantics`. All have one form: from the streams of an auction house,
and where state is to be kept, to the stream of answers. Records are cut down to plain tuples of what a query needs
before they travel.

An operator that keeps state per bin answers at once (Q3), or puts work off until the epoch of the answer is complete.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from examples.nexmark.events import Auction, Bid, Person
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
)
from hailer import DISCARD, Bin, BinOptions, Process, Stream, Timers, process
from operators.commands import Control


@dataclass(frozen=True, slots=True)
class House:
    """What happens at the auction house, by kind; each event in the epoch of its `date_time`."""

    people: Stream[Person]
    auctions: Stream[Auction]
    bids: Stream[Bid]


@dataclass(frozen=True, slots=True)
class Keep:
    """Where state is kept: on which bins, and which commands move them."""

    control: Stream[Control]
    bins: int | BinOptions


Query = Callable[[House, Keep, Settings], Stream[Any]]


def q1(house: House, keep: Keep, settings: Settings) -> Stream[Bid]:
    """Currency conversion: every bid, its price in euro."""
    return house.bids.map(lambda bid: Bid(bid.auction, bid.bidder, euro(bid.price), bid.date_time))


def q2(house: House, keep: Keep, settings: Settings) -> Stream[AuctionPrice]:
    """Selection: the bids on some auctions."""
    selected = house.bids.filter(lambda bid: bid.auction % SELECTED_AUCTIONS == 0)
    return selected.map(lambda bid: AuctionPrice(bid.auction, bid.price))


def q3(house: House, keep: Keep, settings: Settings) -> Stream[LocalItem]:
    """Local item suggestion: auctions of one category by sellers from some states, known once both are."""

    def join(time: int, people: list[Any], auctions: list[Any], bin: Bin) -> list[LocalItem]:
        """Per seller: who they are, once that is known, and until then their auctions."""
        items = []
        for seller, name, city, state in people:
            _, waiting = bin.state.get(seller, (None, ()))
            items += [LocalItem(name, city, state, auction) for auction in waiting]
            bin.state[seller] = (name, city, state), []
        for seller, auction in auctions:
            person, waiting = bin.state.setdefault(seller, (None, []))
            if person is None:
                waiting.append(auction)
            else:
                name, city, state = person
                items.append(LocalItem(name, city, state, auction))
        return items

    people = house.people.filter(lambda person: person.state in LOCAL_STATES)
    auctions = house.auctions.filter(lambda auction: auction.category == LOCAL_CATEGORY)
    return people.map(lambda person: (person.id, person.name, person.city, person.state)).stateful_binary(
        auctions.map(lambda auction: (auction.seller, auction.id)),
        join,
        key=_first,
        other_key=_first,
        initial=dict,
        control=keep.control,
        bins=keep.bins,
        name="local items",
    )


def q4(house: House, keep: Keep, settings: Settings) -> Stream[CategoryAverage]:
    """Average price per category: over all sales so far, whenever there are new ones."""
    sold = sales(house, keep, settings)
    return _by_key(sold, _CategoryAverages(), keep, key=lambda sale: sale[3], name="by category")


def q5(house: House, keep: Keep, settings: Settings) -> Stream[HotItem]:
    """Hot items: in each sliding window, the auctions with the most bids."""
    slide_ms = settings.hot_items_slide_ms
    bids = house.bids.map(lambda bid: (bid.auction, window_end(bid.date_time, slide_ms)))
    counts = _sliding_counts(bids, keep, settings)
    hottest = highest(counts, keep, settings, key=_first, name="hottest of all")
    return hottest.map(lambda hot: HotItem(hot[0], auction=hot[2], bids=hot[1]))


def q6(house: House, keep: Keep, settings: Settings) -> Stream[SellerAverage]:
    """Average selling price by seller: over the last ten sales, whenever there are new ones."""
    sold = sales(house, keep, settings)
    return _by_key(sold, _SellerAverages(), keep, key=lambda sale: sale[2], name="by seller")


def q7(house: House, keep: Keep, settings: Settings) -> Stream[HighestBid]:
    """Highest bid: in each tumbling window, the bids at the highest price."""
    size_ms = settings.highest_bid_ms
    bids = house.bids.map(lambda bid: (window_end(bid.date_time, size_ms), bid.price, (bid.auction, bid.bidder)))
    of_bins = highest(bids, keep, settings, key=lambda row: row[2][0], name="highest of bins")
    of_all = highest(of_bins, keep, settings, key=_first, name="highest of all")
    return of_all.map(lambda row: HighestBid(row[0], auction=row[2][0], bidder=row[2][1], price=row[1]))


def q8(house: House, keep: Keep, settings: Settings) -> Stream[NewSeller]:
    """Monitor new users: the auctions that people opened in the tumbling window in which they registered."""
    size_ms = settings.new_sellers_ms
    people = house.people.map(lambda person: ((window_end(person.date_time, size_ms), person.id), person.name))
    auctions = house.auctions.map(lambda a: ((window_end(a.date_time, size_ms), a.seller), a.reserve))
    return process(
        [(people, _first), (auctions, _first)],
        _NewSellers(settings),
        control=keep.control,
        bins=keep.bins,
        name="new sellers",
    )


QUERIES: dict[str, Query] = {"q1": q1, "q2": q2, "q3": q3, "q4": q4, "q5": q5, "q6": q6, "q7": q7, "q8": q8}

Sale = tuple[int, int, int, int, int]
"""`expires`, auction, seller, category, price."""


def sales(house: House, keep: Keep, settings: Settings) -> Stream[Sale]:
    """Auctions that ended with a valid bid, each in the epoch of its `expires`.

    State per auction: what it is, once that is known; its highest valid bid; and bids that came before it was known.
    """

    def consume(time: int, auctions: list[Any], bids: list[Any], bin: Bin) -> list[Sale]:
        for id, *auction in auctions:
            _, _, waiting = bin.state.get(id, (None, 0, ()))
            bin.state[id] = [auction, max((_valid(auction, *bid) for bid in waiting), default=0), []]
            bin.put_off(settings.epoch(auction[1]), id)
        for id, price, date_time in bids:
            state = bin.state.get(id)
            if state is None:
                state = bin.state[id] = [None, 0, []]
                bin.put_off(time, id)
            if state[0] is None:
                state[2].append((price, date_time))
            else:
                state[1] = max(state[1], _valid(state[0], price, date_time))
        return []

    def close(time: int, ids: list[int], bin: Bin) -> list[Sale]:
        """Sell what expired, and forget the bids on what is not known even now."""
        sold = []
        for id in set(ids):
            auction, price, _ = bin.state[id]
            if auction is None:
                del bin.state[id]
            elif settings.epoch(auction[1]) == time:
                del bin.state[id]
                if price:
                    _, expires, _, seller, category = auction
                    sold.append((expires, id, seller, category, price))
        return sold

    auctions = house.auctions.map(lambda a: (a.id, a.date_time, a.expires, a.reserve, a.seller, a.category))
    return auctions.stateful_binary_input(
        house.bids.map(lambda bid: (bid.auction, bid.price, bid.date_time)),
        consume,
        close,
        key=_first,
        other_key=_first,
        initial=dict,
        control=keep.control,
        bins=keep.bins,
        name="sales",
    )


def _valid(auction: list[Any], price: int, date_time: int) -> int:
    """The price of a bid if it is valid, else 0."""
    opens, expires, reserve, *_ = auction
    return price if opens <= date_time < expires and price >= reserve else 0


class _CategoryAverages:
    """State per category: the total and the number of its sales."""

    def initial(self) -> Any:
        return 0, 0

    def on_record(self, port: int, record: Sale, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        timers.set(timers.time)
        total, count = state
        return (total + record[4], count + 1), []

    def on_timer(self, key: int, state: Any, timers: Timers) -> tuple[Any, list[CategoryAverage]]:
        total, count = state
        return state, [CategoryAverage(key, total / count)]


class _SellerAverages:
    """State per seller: the last sales, each with what orders it."""

    def initial(self) -> Any:
        return []

    def on_record(self, port: int, record: Sale, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        timers.set(timers.time)
        expires, auction, _, _, price = record
        insort(state, (expires, auction, price))
        return state[-LAST_SALES:], []

    def on_timer(self, key: int, state: Any, timers: Timers) -> tuple[Any, list[SellerAverage]]:
        return state, [SellerAverage(key, sum(price for _, _, price in state) / len(state))]


class _NewSellers:
    """State per window and person: their name, once they registered in it, and the reserves of their auctions."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def initial(self) -> Any:
        return None, []

    def on_record(self, port: int, record: Any, state: Any, timers: Timers) -> tuple[Any, list[Any]]:
        (end, _), value = record
        name, reserves = state
        timers.set(self._settings.epoch(end))
        return ((name, [*reserves, value]) if port else (value, reserves)), []

    def on_timer(self, key: tuple[int, int], state: Any, timers: Timers) -> tuple[Any, list[NewSeller]]:
        name, reserves = state
        return DISCARD, [] if name is None else [NewSeller(*key, name, reserve) for reserve in reserves]


def _by_key(stream: Stream[Any], logic: Process, keep: Keep, *, key: Callable[[Any], Any], name: str) -> Stream[Any]:
    return process([(stream, key)], logic, control=keep.control, bins=keep.bins, name=name)


Ranked = tuple[int, int, Any]
"""The end of a window, how high something ranks in it, and what that is."""


def highest(
    stream: Stream[Ranked], keep: Keep, settings: Settings, *, key: Callable[[Any], Any], name: str
) -> Stream[Ranked]:
    """Of each bin, what ranks highest in a window, in the epoch of its end; overall if the end is the key.

    State per window: the highest rank and all that have it.
    """

    def consume(time: int, rows: list[Ranked], bin: Bin) -> list[Ranked]:
        windows = bin.state
        for end, rank, what in rows:
            if end not in windows:
                windows[end] = [rank, [what]]
                bin.put_off(settings.epoch(end), end)
            elif rank > windows[end][0]:
                windows[end] = [rank, [what]]
            elif rank == windows[end][0]:
                windows[end][1].append(what)
        return []

    def close(time: int, ends: list[int], bin: Bin) -> list[Ranked]:
        closed = [(end, *bin.state.pop(end)) for end in ends]
        return [(end, rank, what) for end, rank, whats in closed for what in whats]

    return stream.stateful_unary_input(
        consume,
        close,
        key=key,
        initial=dict,
        control=keep.control,
        bins=keep.bins,
        name=name,
    )


def _sliding_counts(bids: Stream[tuple[int, int]], keep: Keep, settings: Settings) -> Stream[Ranked]:
    """How many bids each auction has in each sliding window, in the epoch of its end.

    State per auction: the bids of each slide that a window to come has a part in. While there are any, something is put
    off until the next window ends.
    """
    size_ms, slide_ms = settings.hot_items_ms, settings.hot_items_slide_ms

    def consume(time: int, rows: list[tuple[int, int]], bin: Bin) -> list[Ranked]:
        for auction, slide in rows:
            slides = bin.state.get(auction)
            if slides is None:
                slides = bin.state[auction] = {}
                # Not until this bid's window ends: an earlier bid of this epoch may come later.
                first = window_end(time * settings.epoch_ms, slide_ms)
                bin.put_off(settings.epoch(first), (first, auction))
            slides[slide] = slides.get(slide, 0) + 1
        return []

    def close(time: int, ended: list[tuple[int, int]], bin: Bin) -> list[Ranked]:
        counts = []
        for end, auction in ended:
            slides = bin.state[auction]
            count = sum(bids for slide, bids in slides.items() if slide <= end)
            if count:
                counts.append((end, count, auction))
            slides.pop(end - size_ms + slide_ms, None)
            if slides:
                bin.put_off(settings.epoch(end + slide_ms), (end + slide_ms, auction))
            else:
                del bin.state[auction]
        return counts

    return bids.stateful_unary_input(
        consume,
        close,
        key=_first,
        initial=dict,
        control=keep.control,
        bins=keep.bins,
        name="bids per window",
    )


def _first(record: Any) -> Any:
    return record[0]
