"""What queries 1 to 8 answer, and in which epoch: the contract between the dataflows and the oracle.

Epochs
------

Event time is cut into epochs of `Settings.epoch_ms`: the epoch of an instant is `instant // epoch_ms`. An event enters
in the epoch of its `date_time`. Every answer belongs to the epoch of one instant, given below; the answer of an epoch
is a multiset of rows. An answer depends on events of its own and earlier epochs only, so that it can be given when the
epoch is complete, and it does not depend on the order of events within an epoch.

=====  =========================  ================================================  ==============================
query  row                        one row for each                                  epoch of
=====  =========================  ================================================  ==============================
Q1     `Bid`, price in euro       bid                                               the bid
Q2     `AuctionPrice`             bid on an auction whose id is divisible by 123    the bid
Q3     `LocalItem`                auction in category 10 whose seller lives in OR,  the later of auction and
                                  ID or CA                                          the seller's registration
Q4     `CategoryAverage`          category and epoch in which it had a sale         the `expires` of those auctions
Q5     `HotItem`                  window and auction with the most bids in it       the window's end
Q6     `SellerAverage`            seller and epoch in which they had a sale         the `expires` of those auctions
Q7     `HighestBid`               window and bid at the highest price in it         the window's end
Q8     `NewSeller`                auction opened in the window in which its seller  the window's end
                                  registered
=====  =========================  ================================================  ==============================

Definitions
-----------

*Euro.* `price * 908 // 1000`: the rate is 0.908, and cents are rounded down.

*Sale* (Q4, Q6). A bid is valid if `auction.date_time <= bid.date_time < auction.expires` and `bid.price >=
auction.reserve`. An auction with a valid bid is sold at `expires`, for the highest price among its valid bids. An
auction without one is not sold, and is in no average.

*Average* (Q4, Q6). `total / count` of integers, which Python rounds correctly: the same float in whatever order the
total was added up. Q4 averages all sales of the category up to and including the epoch. Q6 averages the ten last sales
of the seller up to and including the epoch, ordered by `(expires, auction id)`; fewer while there are fewer. A row is
given also if the average has not changed.

*Windows* (Q5, Q7, Q8). A window is `[end - size, end)`. Ends are the multiples of the slide (Q5), or of the size (Q7
and Q8, whose windows tumble). Windows may begin before time 0 and end after the last event: with a size of 3 slides, a
bid at time 0 is in the windows that end after 1, 2 and 3 slides. A window without bids has no row.

*Ties* (Q5, Q7). All of them: each auction with the most bids, each bid at the highest price. Most and highest are
overall, not per worker or bin.

*Q8* is per auction, as in the benchmark's definition: somebody who registers and opens two auctions in a window has two
rows. The auction may come before the registration.

*The end.* When the stream ends, time goes on: auctions still open expire and open windows end, in epochs after the last
event's. A run that stops at some epoch compares the epochs before it.

With timers
-----------

In each case a timer is set for the epoch that the table names, and fires when all events of that epoch have been seen.
Such a timer may be for the current epoch: an auction can open and expire within one.

- At the epoch of `expires` or of a window's end, later events of the same epoch have been seen too. Compare their
  `date_time` with the end; the epoch alone does not tell.
- A valid bid is no earlier than its auction opened. So a bid whose auction is unknown when the bid's epoch is complete
  will never be valid: forget it then (the auction was not yet open, or is gone). Within an epoch it has to wait.
- Q3 keeps people and auctions for ever, and all of a seller's auctions, since the person may come last.
- Q4 and Q6 take two stages, by auction and then by category or seller; so do Q5 and Q7, by auction (or anything) and
  then by window end. The first stage gives its results in the epoch of the answer, and the second gives the answer when
  that epoch is complete. Several windows may end in one epoch: the key of the second stage is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hailer import codec

EURO_PER_1000_DOLLARS = 908
SELECTED_AUCTIONS = 123
LOCAL_STATES = frozenset({"OR", "ID", "CA"})
LOCAL_CATEGORY = 10
LAST_SALES = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """How long epochs and windows are.

    The benchmark has windows of 60 minutes every minute (Q5), one minute (Q7) and 12 hours (Q8). These are the same
    shapes for a stream of some seconds.
    """

    epoch_ms: int = 250
    hot_items_ms: int = 3_000
    hot_items_slide_ms: int = 500
    highest_bid_ms: int = 1_000
    new_sellers_ms: int = 2_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.hot_items_ms % self.hot_items_slide_ms:
            raise ValueError(
                f"hot_items_ms is {self.hot_items_ms}; it must be a multiple of hot_items_slide_ms, "
                f"which is {self.hot_items_slide_ms}"
            )

    def epoch(self, time_ms: int) -> int:
        """The epoch of an instant."""
        return time_ms // self.epoch_ms


def window_end(time_ms: int, size_ms: int) -> int:
    """The end of the tumbling window that an instant is in; of the sliding windows it is in, the first end.

    >>> window_end(999, 1000), window_end(1000, 1000)
    (1000, 2000)
    """
    return (time_ms // size_ms + 1) * size_ms


def window_ends(time_ms: int, size_ms: int, slide_ms: int) -> range:
    """The ends of the sliding windows that an instant is in, first to last.

    >>> list(window_ends(1000, size_ms=1500, slide_ms=500))
    [1500, 2000, 2500]
    """
    first = window_end(time_ms, slide_ms)
    return range(first, first + size_ms, slide_ms)


def euro(dollars: int) -> int:
    """A price in dollar cents as euro cents, rounded down."""
    return dollars * EURO_PER_1000_DOLLARS // 1000


class AuctionPrice(NamedTuple):
    """Q2: what was bid for a selected auction."""

    auction: int
    price: int


class LocalItem(NamedTuple):
    """Q3: who sells, where, in which auction."""

    name: str
    city: str
    state: str
    auction: int


class CategoryAverage(NamedTuple):
    """Q4: the mean price of all sales in a category so far."""

    category: int
    average: float


class HotItem(NamedTuple):
    """Q5: an auction with the most bids in the window that ends at `window_end`."""

    window_end: int
    auction: int
    bids: int


class SellerAverage(NamedTuple):
    """Q6: the mean price of a seller's last ten sales."""

    seller: int
    average: float


class HighestBid(NamedTuple):
    """Q7: a bid at the highest price in the window that ends at `window_end`."""

    window_end: int
    auction: int
    bidder: int
    price: int


class NewSeller(NamedTuple):
    """Q8: a person who registered, and opened an auction with this reserve, in the window that ends at `window_end`."""

    window_end: int
    person: int
    name: str
    reserve: int


for row_type in (AuctionPrice, LocalItem, CategoryAverage, HotItem, SellerAverage, HighestBid, NewSeller):
    codec.register(row_type)
