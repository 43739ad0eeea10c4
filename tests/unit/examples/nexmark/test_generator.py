"""The NEXMark stream: its proportions, its skew, its clock, and that slices of it fit together."""

from __future__ import annotations

import doctest
from collections import Counter
from itertools import chain

import pytest

from examples.nexmark import generator as generator_module
from examples.nexmark.events import Auction, Bid, Event, Person
from examples.nexmark.generator import Generator
from framework.wire import codec


def test_the_module_documentation_is_true():
    assert doctest.testmod(generator_module).failed == 0


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids():
    assert [type(event) for event in Generator().events(0, 100)] == 2 * ([Person] + 3 * [Auction] + 46 * [Bid])


def test_a_seed_decides_the_stream():
    assert Generator(seed=3).events(0, 1000) == Generator(seed=3).events(0, 1000)
    assert Generator(seed=3).events(0, 1000) != Generator(seed=4).events(0, 1000)


@pytest.mark.parametrize("peers", [1, 2, 3, 7, 64])
def test_the_slices_of_all_workers_are_the_stream(peers: int):
    whole = Generator(seed=5).events(0, 1000)
    for worker in range(peers):
        assert Generator(seed=5).events(worker, 1000, peers) == whole[worker::peers]


@pytest.mark.parametrize("peers", [1, 3])
@pytest.mark.parametrize(("events_per_s", "epoch_ms"), [(1000, 100), (700, 33), (3, 100), (100_000, 1)])
def test_epochs_hold_the_events_of_their_time(peers: int, events_per_s: int, epoch_ms: int):
    stream = Generator(seed=5, events_per_s=events_per_s)
    whole = stream.events(0, 500)
    slices = [list(stream.epochs(500, epoch_ms=epoch_ms, worker=worker, peers=peers)) for worker in range(peers)]
    for epoch, shares in enumerate(zip(*slices, strict=True)):
        expected = [event for event in whole if event.date_time // epoch_ms == epoch]
        assert sorted(chain(*shares), key=repr) == sorted(expected, key=repr)
    assert [len(list(chain(*epochs))) for epochs in slices] == [len(whole[worker::peers]) for worker in range(peers)]


def test_time_starts_at_zero_and_keeps_the_rate():
    stream = Generator(events_per_s=400)
    times = [event.date_time for event in stream.events(0, 2000)]
    assert times == sorted(times)
    assert (times[0], times[400], times[-1]) == (0, 1000, 4997)
    assert [stream.first_index(time_ms) for time_ms in (0, 1, 2, 3, 1000)] == [0, 1, 1, 2, 400]


def test_ids_count_up_from_a_thousand():
    events = Generator().events(0, 500)
    assert [person.id for person in only(Person, events)] == list(range(1000, 1010))
    assert [auction.id for auction in only(Auction, events)] == list(range(1000, 1030))


def test_half_of_the_bids_and_three_quarters_of_bidders_and_sellers_are_hot():
    events = Generator(seed=2).events(0, 50_000)[-4000:]  # people 1920 to 1999, auctions 3760 to 3999
    bids, auctions = list(only(Bid, events)), list(only(Auction, events))
    by_auction = Counter(bid.auction for bid in bids)
    assert {auction for auction, _ in by_auction.most_common(3)} == {3700, 3800, 3900}
    assert sum(by_auction[hot] for hot in (3700, 3800, 3900)) / len(bids) == pytest.approx(1 / 2, abs=0.03)
    assert sum(bid.bidder == 1901 for bid in bids) / len(bids) == pytest.approx(3 / 4, abs=0.03)
    assert sum(auction.seller == 1900 for auction in auctions) / len(auctions) == pytest.approx(3 / 4, abs=0.08)


def test_bids_name_auctions_in_flight_and_some_that_will_open():
    newest, offsets = 999, Counter[int]()
    for event in Generator(seed=2, in_flight_auctions=20).events(0, 100_000):
        if isinstance(event, Auction):
            newest = event.id
        elif isinstance(event, Bid) and event.auction % 100:
            offsets[event.auction - newest] += 1
    assert set(offsets) == set(range(-20, 11))


def test_people_come_from_the_active_ones_and_some_who_will_register():
    stream = Generator(seed=2, active_people=30, hot_bidder_ratio=1, hot_seller_ratio=1)
    newest, bidders, sellers = 999, Counter[int](), Counter[int]()
    for event in stream.events(0, 50_000)[20_000:]:
        if isinstance(event, Person):
            newest = event.id
        elif isinstance(event, Auction):
            sellers[event.seller - newest] += 1
        else:
            bidders[event.bidder - newest] += 1
    assert set(bidders) == set(sellers) == set(range(-29, 11))


def test_auctions_last_as_long_as_it_takes_to_open_those_in_flight():
    auctions = list(only(Auction, Generator(seed=2, events_per_s=500, in_flight_auctions=60).events(0, 50_000)))
    lasted = [auction.expires - auction.date_time for auction in auctions]
    assert min(lasted) >= 1
    assert max(lasted) <= 4000
    assert sum(lasted) / len(lasted) == pytest.approx(2000, rel=0.05)  # 60 auctions are in 1000 events


def test_prices_spread_over_six_orders_of_magnitude_and_reserves_exceed_initial_bids():
    events = Generator(seed=2).events(0, 50_000)
    bids = list(only(Bid, events))
    magnitudes = Counter(len(str(bid.price)) for bid in bids)
    assert set(magnitudes) == set(range(3, 9))
    assert all(number / len(bids) == pytest.approx(1 / 6, abs=0.02) for number in magnitudes.values())
    assert all(auction.reserve > auction.initial_bid >= 100 for auction in only(Auction, events))


def test_all_states_and_categories_occur():
    events = Generator(seed=2).events(0, 10_000)
    assert {person.state for person in only(Person, events)} == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert {auction.category for auction in only(Auction, events)} == {10, 11, 12, 13, 14}


def test_a_rate_above_the_clock_gives_auctions_that_last_an_instant():
    auctions = only(Auction, Generator(events_per_s=10_000_000, in_flight_auctions=1).events(0, 1000))
    assert {auction.expires - auction.date_time for auction in auctions} == {1}


def test_events_travel_between_workers():
    events = Generator().events(0, 100)
    arrived = codec.decode_rows(codec.encode_rows(events))
    assert arrived == events
    assert [type(event) for event in arrived] == [type(event) for event in events]


@pytest.mark.parametrize("name", ["events_per_s", "active_people", "in_flight_auctions", "hot_seller_ratio"])
def test_settings_below_one_are_refused(name: str):
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        Generator(**{name: 0})


def only(kind: type, events: list[Event]):
    return (event for event in events if isinstance(event, kind))
