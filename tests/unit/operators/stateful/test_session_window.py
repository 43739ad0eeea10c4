"""`session_window`: where sessions begin and end, how they become one, and what comes too late for them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from framework.errors import UserError
from framework.launch.execute import example, execute
from framework.wire.codec import encode_value
from operators import (
    BinOptions,
    EpochClock,
    Input,
    Late,
    Window,
    counting,
    iterator_source,
)
from routing.bins import Bins
from routing.state.memory import MemoryStore


def visit(epochs: list[list[int]], **options: Any) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Count event times in sessions with a gap of 5, with epochs of 10, on one worker."""

    def build(scope):
        results, late = iterator_source(scope, enumerate(epochs)).session_window(
            counting(), **{"gap": 5, "key": lambda _: "k", "event_time": int, "clock": EpochClock(10), **options}
        )
        return results.map(lambda result: (*result.window, result.value, result.pane.value)).extract(), late.extract()

    results, late = example(build)
    return {time: sorted(rows) for time, rows in results.by_time().items()}, late.by_time()


def test_events_less_than_the_gap_apart_are_in_one_session():
    assert visit([[0, 4, 8]])[0] == {1: [(0, 13, 3, "closed")]}


def test_events_exactly_the_gap_apart_are_in_two():
    assert visit([[0, 5]])[0] == {0: [(0, 5, 1, "closed"), (5, 10, 1, "closed")]}


@pytest.mark.parametrize("events", list(permutations([0, 4, 8, 12])))
def test_the_order_within_an_epoch_does_not_matter(events: tuple[int, ...]):
    assert visit([[], list(events)], clock=EpochClock(10, delay=10))[0] == {2: [(0, 17, 4, "closed")]}


def test_an_event_between_two_sessions_makes_them_one():
    assert visit([[0, 8], [4]], clock=EpochClock(10, delay=10), early="epoch")[0] == {
        0: [(0, 5, 1, "early"), (8, 13, 1, "early")],
        1: [(0, 13, 3, "early")],
        2: [(0, 13, 3, "closed")],
    }


def test_a_session_that_grows_closes_later():
    assert visit([[8], [12], [24]])[0] == {1: [(8, 17, 2, "closed")], 2: [(24, 29, 1, "closed")]}


def test_without_lateness_what_is_behind_the_watermark_is_late_even_if_its_session_is_open():
    """After epoch 0 the watermark is 10; the session from 9 to 14 is open."""
    assert visit([[9], [9, 10]]) == ({1: [(9, 15, 2, "closed")]}, {1: [Late(9, (Window(9, 14),))]})


def test_lateness_lets_a_session_be_corrected():
    assert visit([[1], [3], [2]], lateness=10) == (
        {0: [(1, 6, 1, "closed")], 1: [(1, 8, 2, "corrected")]},
        {2: [Late(2, (Window(2, 7),))]},
    )


def test_lateness_is_over_when_the_watermark_is_past_by_more():
    assert visit([[], [], [2]], lateness=18)[1] == {}
    assert visit([[], [], [2]], lateness=17)[1].keys() == {2}


def test_a_late_record_can_open_a_closed_session_again():
    """From 2 to 8 is closed at epoch 0. With 7 it lasts to 12, beyond the watermark of 10, and closes at epoch 1."""
    assert visit([[2, 3], [7], []], lateness=5)[0] == {0: [(2, 8, 2, "closed")], 1: [(2, 12, 3, "closed")]}
    assert visit([[2, 3], [7, 11, 16], []], lateness=5)[0] == {
        0: [(2, 8, 2, "closed")],
        1: [(2, 16, 4, "closed")],
        2: [(16, 21, 1, "closed")],
    }


def test_a_late_record_can_join_a_closed_session_and_an_open_one():
    assert visit([[2], [6, 10, 14, 18]], lateness=10)[0] == {
        0: [(2, 7, 1, "closed")],
        2: [(2, 23, 5, "closed")],
    }


def test_a_session_that_goes_on_does_not_take_more_and_more_memory():
    stores: list[MemoryStore] = []
    sizes: list[int] = []

    def store(bins: Bins) -> MemoryStore:
        stores.append(MemoryStore(bins))
        return stores[0]

    def main(worker):
        events = Input[int]()
        with worker.dataflow() as scope:
            events.stream(scope).session_window(
                counting(),
                gap=20,
                key=lambda _: "k",
                event_time=int,
                clock=EpochClock(10),
                early="epoch",
                bins=BinOptions(store=store),
            )
        for epoch in range(50):
            events.send(epoch * 10)
            events.advance_to(epoch + 1)
            for _ in range(4):
                worker.step()
            sizes.append(len(encode_value(stores[0].begin(["k"])["k"])))

    execute(main)
    assert max(sizes) <= sizes[5] + 8


def test_a_gap_must_be_positive():
    with pytest.raises(UserError, match="operator 'session_window' received gap=0"):
        visit([], gap=0)
