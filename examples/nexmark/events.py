"""What happens at the auction house: people register, open auctions and bid.

Times are milliseconds of event time, prices are cents. All three can travel between workers and rest in stores.
"""

from __future__ import annotations

from typing import NamedTuple

from hailer import codec


class Person(NamedTuple):
    """Somebody registered; each person does so once."""

    id: int
    name: str
    email: str
    city: str
    state: str
    date_time: int


class Auction(NamedTuple):
    """A seller opened an auction. Bids count from `date_time` until just before `expires`."""

    id: int
    item: str
    description: str
    initial_bid: int
    reserve: int
    """The seller sells for this price or more."""
    date_time: int
    expires: int
    seller: int
    category: int


class Bid(NamedTuple):
    """Somebody offered a price for what is auctioned."""

    auction: int
    bidder: int
    price: int
    date_time: int


Event = Person | Auction | Bid

for event_type in (Person, Auction, Bid):
    codec.register(event_type)
