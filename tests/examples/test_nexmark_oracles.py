"""The NEXMark oracles against answers worked out by hand, and against the same queries in SQL."""

from __future__ import annotations

import doctest
import sqlite3
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from examples.nexmark import oracle, semantics
from examples.nexmark.events import Auction, Bid, Event, Person
from examples.nexmark.generator import Generator
from examples.nexmark.oracle import q1, q2, q3, q4, q5, q6, q7, q8
from examples.nexmark.semantics import (
    AuctionPrice,
    CategoryAverage,
    HighestBid,
    HotItem,
    LocalItem,
    NewSeller,
    SellerAverage,
    Settings,
)
from framework.wire import codec

Query = Callable[[list[Event], Settings], dict[int, list[Any]]]

QUERIES: list[Query] = [q1, q2, q3, q4, q5, q6, q7, q8]
SMALL = Settings(epoch_ms=10, hot_items_ms=30, hot_items_slide_ms=10, highest_bid_ms=20, new_sellers_ms=20)


def person(id: int, at: int, state: str = "OR") -> Person:
    return Person(id, f"name {id}", f"{id}@example.org", f"city of {state}", state, at)


def auction(
    id: int, opens: int, expires: int = 1000, *, reserve: int = 1, seller: int = 1, category: int = 10
) -> Auction:
    return Auction(id, "item", "description", 1, reserve, opens, expires, seller, category)


def bid(auction: int, at: int, price: int = 1, bidder: int = 1) -> Bid:
    return Bid(auction, bidder, price, at)


def test_q1_converts_every_bid_and_rounds_cents_down():
    events: list[Event] = [person(1, 0), auction(7, 0), bid(7, 0, 1000), bid(8, 9, 1), bid(7, 10, 101, bidder=5)]
    assert q1(events, SMALL) == {0: [Bid(7, 1, 908, 0), Bid(8, 1, 0, 9)], 1: [Bid(7, 5, 91, 10)]}


def test_q2_selects_bids_on_multiples_of_123():
    events: list[Event] = [
        auction(123, 0),
        bid(123, 0, 5),
        bid(122, 1),
        bid(124, 2),
        bid(1230, 25, 6),
        bid(246, 21, 7),
        bid(1, 22),
    ]
    assert q2(events, SMALL) == {0: [AuctionPrice(123, 5)], 2: [AuctionPrice(246, 7), AuctionPrice(1230, 6)]}


def test_q3_joins_sellers_with_their_auctions_whichever_comes_last():
    events: list[Event] = [
        person(1, 0, "OR"),
        auction(100, 5, seller=1),
        auction(101, 5, seller=1, category=11),
        auction(102, 8, seller=2),
        auction(103, 19, seller=2),
        person(3, 20, "WA"),
        auction(104, 20, seller=3),
        auction(105, 20, seller=99),
        person(2, 35, "ID"),
        person(4, 36, "CA"),
        auction(106, 40, seller=1),
        auction(107, 49, seller=4),
    ]
    assert q3(events, SMALL) == {
        0: [LocalItem("name 1", "city of OR", "OR", 100)],
        3: [LocalItem("name 2", "city of ID", "ID", 102), LocalItem("name 2", "city of ID", "ID", 103)],
        4: [LocalItem("name 1", "city of OR", "OR", 106), LocalItem("name 4", "city of CA", "CA", 107)],
    }


SALES: list[Event] = [
    auction(100, 10, 30, reserve=50),
    bid(100, 9, 900),  # not open yet
    bid(100, 10, 60),
    bid(100, 29, 70),
    bid(100, 29, 70),
    bid(100, 30, 800),  # expired
    bid(100, 31, 900),
    auction(101, 10, 35, reserve=100),
    bid(101, 20, 99),  # below the reserve
    auction(102, 10, 35, reserve=100, seller=2),
    bid(102, 34, 100),
    auction(103, 10, 35),  # no bids
    auction(104, 1, 5, category=11, seller=3),  # opens and expires within an epoch
    bid(104, 4, 7),
    bid(104, 5, 9),
    auction(105, 30, 40, seller=2),
    bid(105, 39, 71),
    bid(999, 39, 5),  # no such auction
]


def test_q4_averages_all_sales_of_a_category_when_there_are_new_ones():
    assert q4(SALES, SMALL) == {
        0: [CategoryAverage(11, 7.0)],
        3: [CategoryAverage(10, (70 + 100) / 2)],
        4: [CategoryAverage(10, (70 + 100 + 71) / 3)],
    }


def test_q6_averages_the_sales_of_a_seller_when_there_are_new_ones():
    assert q6(SALES, SMALL) == {
        0: [SellerAverage(3, 7.0)],
        3: [SellerAverage(1, 70.0), SellerAverage(2, 100.0)],
        4: [SellerAverage(2, (100 + 71) / 2)],
    }


def test_q6_forgets_all_but_the_last_ten_sales():
    prices = {10 * number: number for number in range(1, 13)}
    events: list[Event] = [
        event for end, price in prices.items() for event in (auction(end, 0, end), bid(end, 0, price))
    ]
    averages = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.5, 7.5]
    assert q6(events, SMALL) == {epoch: [SellerAverage(1, average)] for epoch, average in enumerate(averages, start=1)}


def test_q6_orders_sales_by_expiry_and_then_by_auction():
    tied: list[Event] = [
        event for id in range(200, 211) for event in (auction(id, 0, 25), bid(id, 0, 500 if id == 200 else 3))
    ]
    assert q6(tied, SMALL) == {2: [SellerAverage(1, 3.0)]}
    opened_last_but_ends_first: list[Event] = [auction(300, 1, 21), bid(300, 1, 500)]
    assert q6(tied[2:] + opened_last_but_ends_first, SMALL) == {2: [SellerAverage(1, 3.0)]}


HOT: list[Event] = [bid(7, 0), bid(7, 9), bid(8, 10), bid(8, 10, bidder=2), bid(9, 29), bid(9, 30)]


def test_q5_names_every_auction_with_the_most_bids_of_all_in_a_sliding_window():
    assert q5([auction(7, 0), *HOT], SMALL) == {
        1: [HotItem(10, 7, 2)],
        2: [HotItem(20, 7, 2), HotItem(20, 8, 2)],
        3: [HotItem(30, 7, 2), HotItem(30, 8, 2)],
        4: [HotItem(40, 8, 2), HotItem(40, 9, 2)],
        5: [HotItem(50, 9, 2)],
        6: [HotItem(60, 9, 1)],
    }


def test_q5_windows_may_end_within_an_epoch():
    settings = Settings(epoch_ms=25, hot_items_ms=30, hot_items_slide_ms=10)
    assert q5(HOT, settings) == {
        0: [HotItem(10, 7, 2), HotItem(20, 7, 2), HotItem(20, 8, 2)],
        1: [HotItem(30, 7, 2), HotItem(30, 8, 2), HotItem(40, 8, 2), HotItem(40, 9, 2)],
        2: [HotItem(50, 9, 2), HotItem(60, 9, 1)],
    }


def test_q7_names_every_bid_at_the_highest_price_of_all_in_a_tumbling_window():
    events: list[Event] = [
        auction(7, 0),
        bid(7, 0, 5),
        bid(8, 19, 9, bidder=2),
        bid(7, 19, 9),
        bid(7, 20, 3),
        bid(7, 59, 1),
        bid(7, 59, 1),
        bid(7, 58, 0),
    ]
    assert q7(events, SMALL) == {
        2: [HighestBid(20, 7, 1, 9), HighestBid(20, 8, 2, 9)],
        4: [HighestBid(40, 7, 1, 3)],
        6: [HighestBid(60, 7, 1, 1), HighestBid(60, 7, 1, 1)],
    }


def test_q8_names_the_auctions_of_people_who_registered_in_the_same_tumbling_window():
    events: list[Event] = [
        person(1, 5),
        auction(100, 10, seller=1, reserve=30),
        auction(101, 19, seller=1, reserve=20),
        person(2, 19),
        auction(102, 20, seller=1),  # the next window
        auction(103, 20, seller=2),
        auction(104, 21, seller=3, reserve=50),  # before the registration
        auction(105, 22, seller=5),  # two auctions of a seller, but no registration
        auction(106, 23, seller=5),
        person(3, 39),
        person(5, 45),
    ]
    assert q8(events, SMALL) == {
        2: [NewSeller(20, 1, "name 1", 20), NewSeller(20, 1, "name 1", 30)],
        4: [NewSeller(40, 3, "name 3", 50)],
    }


@pytest.mark.parametrize("query", QUERIES)
def test_nothing_happens_without_events(query: Query):
    assert query([], SMALL) == {}


DEFAULT = Settings()
UNEVEN = Settings(epoch_ms=70, hot_items_ms=1200, hot_items_slide_ms=400, highest_bid_ms=90, new_sellers_ms=333)


@pytest.fixture(scope="module", params=[1, 2, 3])
def events(request: pytest.FixtureRequest) -> list[Event]:
    return Generator(seed=request.param, events_per_s=1000).events(0, 10_000)


@pytest.mark.parametrize("query", QUERIES)
def test_ten_seconds_of_events_give_answers(events: list[Event], query: Query):
    answer = query(events, DEFAULT)
    assert sum(len(rows) for rows in answer.values()) >= 10
    assert len(answer) >= 5


def test_the_stream_has_what_the_queries_beware_of(events: list[Event]):
    auctions = {event.id: event for event in events if isinstance(event, Auction)}
    people = {event.id: event for event in events if isinstance(event, Person)}
    bids = [event for event in events if isinstance(event, Bid)]
    opened = [(bid, auctions[bid.auction]) for bid in bids if bid.auction in auctions]
    assert any(bid.date_time < auction.date_time for bid, auction in opened)
    assert any(bid.date_time >= auction.expires for bid, auction in opened)
    assert any(bid.price < auction.reserve for bid, auction in opened)
    assert any(people[a.seller].date_time > a.date_time for a in auctions.values() if a.seller in people)
    sales = oracle.sales(events)
    assert len(sales) < len(auctions)
    assert Counter(sale.seller for sale in sales).most_common(1)[0][1] > 10


@pytest.mark.parametrize("settings", [DEFAULT, UNEVEN])
@pytest.mark.parametrize("query", QUERIES)
def test_order_does_not_matter(events: list[Event], query: Query, settings: Settings):
    shuffled = Random(1).sample(events, len(events))
    assert query(shuffled, settings) == query(events, settings)


@pytest.mark.parametrize("settings", [DEFAULT, UNEVEN])
@pytest.mark.parametrize("query", QUERIES)
def test_an_epoch_is_decided_when_its_events_are_known(events: list[Event], query: Query, settings: Settings):
    answer = query(events, settings)
    for last in (3, 20, 38):
        known = [event for event in events if settings.epoch(event.date_time) <= last]
        decided = {epoch: rows for epoch, rows in query(known, settings).items() if epoch <= last}
        assert decided == {epoch: rows for epoch, rows in answer.items() if epoch <= last}


def test_rows_travel_between_workers(events: list[Event]):
    for query in QUERIES:
        rows = [row for rows in query(events, DEFAULT).values() for row in rows]
        arrived = codec.decode_rows(codec.encode_rows(rows))
        assert arrived == rows
        assert {type(row) for row in arrived} == {type(row) for row in rows}


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="epoch_ms is 0; it must be at least 1"):
        Settings(epoch_ms=0)
    with pytest.raises(ValueError, match="hot_items_ms is 1000; it must be a multiple of hot_items_slide_ms"):
        Settings(hot_items_ms=1000, hot_items_slide_ms=300)


def test_the_module_documentation_is_true():
    assert doctest.testmod(semantics).failed == 0


SALE = """
    sale AS (
        SELECT a.id, a.seller, a.category, a.expires, a.expires / :epoch_ms AS epoch, max(b.price) AS price
        FROM auction a JOIN bid b ON b.auction = a.id
        WHERE b.date_time >= a.date_time AND b.date_time < a.expires AND b.price >= a.reserve
        GROUP BY a.id
    )
"""
IN_SQL: dict[Query, str] = {
    q1: "SELECT date_time / :epoch_ms, auction, bidder, price * 908 / 1000, date_time FROM bid",
    q2: "SELECT date_time / :epoch_ms, auction, price FROM bid WHERE auction % 123 = 0",
    q3: """
        SELECT max(p.date_time, a.date_time) / :epoch_ms, p.name, p.city, p.state, a.id
        FROM person p JOIN auction a ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
    """,
    q4: f"""
        WITH {SALE}
        SELECT now.epoch, now.category, 1.0 * sum(sale.price) / count(*)
        FROM (SELECT DISTINCT category, epoch FROM sale) now
        JOIN sale ON sale.category = now.category AND sale.epoch <= now.epoch
        GROUP BY now.epoch, now.category
    """,
    q5: """
        WITH RECURSIVE
        hot (ends) AS (
            SELECT :hot_items_slide_ms
            UNION ALL SELECT ends + :hot_items_slide_ms FROM hot
            WHERE ends < (SELECT max(date_time) FROM bid) + :hot_items_ms
        ),
        counted AS (
            SELECT hot.ends, bid.auction, count(*) AS bids
            FROM hot JOIN bid ON bid.date_time >= hot.ends - :hot_items_ms AND bid.date_time < hot.ends
            GROUP BY hot.ends, bid.auction
        )
        SELECT ends / :epoch_ms, ends, auction, bids FROM counted
        WHERE (ends, bids) IN (SELECT ends, max(bids) FROM counted GROUP BY ends)
    """,
    q6: f"""
        WITH {SALE},
        ranked AS (
            SELECT now.epoch, now.seller, sale.price, row_number() OVER (
                PARTITION BY now.epoch, now.seller ORDER BY sale.expires DESC, sale.id DESC
            ) AS place
            FROM (SELECT DISTINCT seller, epoch FROM sale) now
            JOIN sale ON sale.seller = now.seller AND sale.epoch <= now.epoch
        )
        SELECT epoch, seller, 1.0 * sum(price) / count(*) FROM ranked WHERE place <= 10 GROUP BY epoch, seller
    """,
    q7: """
        WITH placed AS (SELECT *, date_time - date_time % :highest_bid_ms + :highest_bid_ms AS ends FROM bid)
        SELECT ends / :epoch_ms, ends, auction, bidder, price FROM placed
        WHERE (ends, price) IN (SELECT ends, max(price) FROM placed GROUP BY ends)
    """,
    q8: """
        SELECT (a.date_time / :new_sellers_ms + 1) * :new_sellers_ms / :epoch_ms,
               (a.date_time / :new_sellers_ms + 1) * :new_sellers_ms, p.id, p.name, a.reserve
        FROM person p JOIN auction a ON a.seller = p.id
        WHERE a.date_time / :new_sellers_ms = p.date_time / :new_sellers_ms
    """,
}


@pytest.fixture(scope="module")
def database(events: list[Event]):
    connection = sqlite3.connect(":memory:")
    for kind in (Person, Auction, Bid):
        connection.execute(f"CREATE TABLE {kind.__name__} ({', '.join(kind._fields)})")
        rows = [event for event in events if isinstance(event, kind)]
        connection.executemany(f"INSERT INTO {kind.__name__} VALUES ({', '.join('?' * len(kind._fields))})", rows)
    connection.execute("CREATE INDEX by_auction ON bid (auction)")
    yield connection
    connection.close()


@pytest.mark.parametrize("settings", [DEFAULT, UNEVEN])
@pytest.mark.parametrize("query", QUERIES)
def test_a_database_gives_the_same_answer(
    events: list[Event], database: sqlite3.Connection, query: Query, settings: Settings
):
    parameters = {name: getattr(settings, name) for name in Settings.__slots__}
    answer: dict[int, list[Any]] = {}
    for epoch, *row in database.execute(IN_SQL[query], parameters):
        answer.setdefault(epoch, []).append(tuple(row))
    assert {epoch: sorted(rows) for epoch, rows in answer.items()} == query(events, settings)
