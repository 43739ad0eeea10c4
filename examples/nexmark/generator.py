"""A stream of auction-house events, each made from the seed and its index alone.

Of every 50 events the first is a person, the next 3 are auctions and the other 46 are bids. Because nothing is carried
from one event to the next, workers make disjoint slices of one stream, however many they are: worker k of n makes the
events k, k + n, k + 2n and so on, and all slices together are the stream that one worker would make.

    >>> generator = Generator(seed=7, events_per_s=1000)
    >>> generator.event(49)
    Bid(auction=1003, bidder=1001, price=8012, date_time=49)
    >>> generator.events(0, 100) == [generator.event(index) for index in range(100)]
    True

What makes the stream hard on a system, after the usual NEXMark generator:

- *Skew.* One in `hot_auction_ratio` bids goes to any auction in flight and the others to the hot one; likewise for
  bidders and sellers. Every 100 auctions, or people, another one becomes hot.
- *Names from the future.* Sellers and bidders are drawn from up to 10 people who have not registered yet, and bids from
  up to 10 auctions that have not opened yet. Early in the stream these are many.
- *Auctions end.* They last as long as it takes to open `in_flight_auctions` more of them, on average, and up to twice
  that; so bids also come too late.

Event time starts at 0 and never goes back: `events_per_s` events share each second of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from xxhash import xxh3_128_digest

from examples.nexmark.events import Auction, Bid, Event, Person

PEOPLE, AUCTIONS, BIDS = 1, 3, 46
"""How many of each kind are in a round, in this order."""

ROUND = PEOPLE + AUCTIONS + BIDS

FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
"""Where ids start. The benchmark's queries name ids near these."""

CATEGORIES = 5
PEOPLE_AHEAD, AUCTIONS_AHEAD = 10, 10
HOT_EVERY, HOT_SELLER, HOT_BIDDER = 100, 0, 1
"""Of every 100 people the first is a hot seller and the second a hot bidder; of 100 auctions the first is hot."""

HOMES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Bend", "OR"),
    ("Portland", "OR"),
    ("Kent", "WA"),
    ("Redmond", "WA"),
    ("Seattle", "WA"),
    ("Cheyenne", "WY"),
)
FIRST_NAMES = "Ada Blaise Carl Dorothy Emmy Felix Grace Henri Ida Joan Kurt Leonhard".split()
LAST_NAMES = "Abel Bernoulli Cantor Dedekind Euler Fermat Gauss Hilbert Ito Jacobi".split()
ADJECTIVES = "antique broken curious dented elegant framed gilded handmade".split()
NOUNS = "atlas barometer clock desk easel flute globe hourglass inkwell kettle".split()


@dataclass(frozen=True, slots=True)
class Generator:
    """The stream of one seed and rate. The defaults are the usual generator's."""

    seed: int = 1
    events_per_s: int = 1000
    active_people: int = 1000
    """How many of the newest people sell and bid."""
    in_flight_auctions: int = 100
    """How many of the newest auctions are bid for, and how many new ones an auction outlasts on average."""
    hot_auction_ratio: int = 2
    hot_bidder_ratio: int = 4
    hot_seller_ratio: int = 4

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "seed" and getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def event(self, index: int) -> Event:
        """The event at `index` of the stream."""
        round_, place = divmod(index, ROUND)
        if place >= PEOPLE + AUCTIONS:
            return self._bid(index, round_)
        if place >= PEOPLE:
            return self._auction(index, round_, place - PEOPLE)
        return self._person(index, round_ * PEOPLE + place)

    def events(self, start: int, stop: int, step: int = 1) -> list[Event]:
        """The events at `range(start, stop, step)`: with a worker's index and the number of peers, its slice."""
        return [self.event(index) for index in range(start, stop, step)]

    def epochs(self, count: int, *, epoch_ms: int, worker: int = 0, peers: int = 1) -> Iterator[list[Event]]:
        """Worker `worker`'s slice of the first `count` events, one list per epoch from 0 on. Some may be empty."""
        first, epoch = 0, 0
        while first < count:
            epoch += 1
            after = min(count, self.first_index(epoch * epoch_ms))
            yield self.events(first + (worker - first) % peers, after, peers)
            first = after

    def time_ms(self, index: int) -> int:
        """The event time of the event at `index`."""
        return index * 1000 // self.events_per_s

    def first_index(self, time_ms: int) -> int:
        """The index of the first event that is not before `time_ms`."""
        return -(-time_ms * self.events_per_s // 1000)

    def _person(self, index: int, number: int) -> Person:
        first, last, home, _ = self._draw(index)
        name = f"{FIRST_NAMES[first % len(FIRST_NAMES)]} {LAST_NAMES[last % len(LAST_NAMES)]}"
        email = f"{name.lower().replace(' ', '.')}.{number}@example.org"
        city, state = HOMES[home % len(HOMES)]
        return Person(FIRST_PERSON + number, name, email, city, state, self.time_ms(index))

    def _auction(self, index: int, round_: int, place: int) -> Auction:
        who, what, prices, lasts = self._draw(index)
        what, category = divmod(what, CATEGORIES)
        what, adjective = divmod(what, len(ADJECTIVES))
        item = f"{ADJECTIVES[adjective]} {NOUNS[what % len(NOUNS)]}"
        initial_bid = _price(prices & 0xFFFF)
        opens_ms = self.time_ms(index)
        outlasted = self.in_flight_auctions * ROUND // AUCTIONS
        mean_ms = self.time_ms(index + outlasted) - opens_ms
        return Auction(
            id=FIRST_AUCTION + round_ * AUCTIONS + place,
            item=item,
            description=f"{item}, as seen, without its box",
            initial_bid=initial_bid,
            reserve=initial_bid + _price(prices >> 16),
            date_time=opens_ms,
            expires=opens_ms + 1 + lasts % max(1, 2 * mean_ms),
            seller=self._somebody(who, round_, hot_ratio=self.hot_seller_ratio, hot_place=HOT_SELLER),
            category=FIRST_CATEGORY + category,
        )

    def _bid(self, index: int, round_: int) -> Bid:
        """Hot path: 46 of 50 events."""
        which, who, price, _ = self._draw(index)
        newest = (round_ + 1) * AUCTIONS - 1
        which, hot = divmod(which, self.hot_auction_ratio)
        if hot:
            number = newest // HOT_EVERY * HOT_EVERY
        else:
            oldest = max(0, newest - self.in_flight_auctions)
            number = oldest + which % (newest - oldest + 1 + AUCTIONS_AHEAD)
        bidder = self._somebody(who, round_, hot_ratio=self.hot_bidder_ratio, hot_place=HOT_BIDDER)
        return Bid(FIRST_AUCTION + number, bidder, _price(price & 0xFFFF), index * 1000 // self.events_per_s)

    def _somebody(self, drawn: int, round_: int, *, hot_ratio: int, hot_place: int) -> int:
        """The hot person, or any of those who are active or about to register."""
        newest = (round_ + 1) * PEOPLE - 1
        drawn, hot = divmod(drawn, hot_ratio)
        if hot:
            return FIRST_PERSON + newest // HOT_EVERY * HOT_EVERY + hot_place
        active = min(newest + 1, self.active_people)
        return FIRST_PERSON + newest + 1 - active + drawn % (active + PEOPLE_AHEAD)

    def _draw(self, index: int) -> tuple[int, int, int, int]:
        """Four numbers of 32 random bits."""
        return _words(xxh3_128_digest(index.to_bytes(8, "little"), self.seed))


def _price(bits: int) -> int:
    """From 1 to 1,000,000 dollars, in cents, from 16 random bits. Each tenfold range is as likely.

    Integers only: a power of a float may differ between machines.
    """
    spread, tenfold = divmod(bits, 6)
    lowest = _TENFOLDS[tenfold]
    return lowest + (54 * lowest * spread >> 16)


_TENFOLDS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)

_words = Struct("<4I").unpack
