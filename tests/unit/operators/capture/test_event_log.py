"""`EventLog`: events in memory."""

from __future__ import annotations

import pytest

from operators import EventLog
from operators.capture.event import CapturedEvent, MessagesEvent
from operators.capture.event_log import TRIM_EVENTS
from operators.errors import EventsForgotten

EVENTS: list[CapturedEvent] = [MessagesEvent(time, [time]) for time in range(5)]


def test_each_reader_reads_everything_from_the_start():
    log = EventLog()
    log.push(EVENTS[0])
    early = log.open(lambda: None)
    assert (early.next_event(), early.next_event()) == (EVENTS[0], None)
    log.push(EVENTS[1])
    late = log.open(lambda: None)
    assert [late.next_event() for _ in range(3)] == [EVENTS[0], EVENTS[1], None]
    assert [early.next_event() for _ in range(2)] == [EVENTS[1], None]
    assert log.events() == EVENTS[:2]


def test_readers_are_woken_until_they_leave():
    log, woken = EventLog(), list[str]()
    first = log.open(lambda: woken.append("first"))
    log.open(lambda: woken.append("second"))
    log.push(EVENTS[0])
    assert woken == ["first", "second"]
    first.close()
    first.close()
    log.push(EVENTS[1])
    assert woken == ["first", "second", "second"]


def test_everything_is_kept_unless_told_otherwise():
    log = EventLog()
    reader = log.open(lambda: None)
    for time in range(2 * TRIM_EVENTS):
        log.push(MessagesEvent(time, [time]))
        reader.next_event()
    assert len(log.events()) == 2 * TRIM_EVENTS
    assert log.open(lambda: None).next_event() == EVENTS[0]


def test_what_all_readers_have_passed_is_forgotten_if_so_wanted():
    log = EventLog(retain=False)
    fast, slow = log.open(lambda: None), log.open(lambda: None)
    for time in range(3 * TRIM_EVENTS):
        log.push(MessagesEvent(time, [time]))
    for _ in range(3 * TRIM_EVENTS):
        fast.next_event()
    assert len(log.events()) == 3 * TRIM_EVENTS
    read = [slow.next_event() for _ in range(3 * TRIM_EVENTS)]
    assert read == [MessagesEvent(time, [time]) for time in range(3 * TRIM_EVENTS)]
    assert log.events() == []
    log.push(EVENTS[0])
    assert (fast.next_event(), slow.next_event(), slow.next_event()) == (EVENTS[0], EVENTS[0], None)
    with pytest.raises(EventsForgotten, match=f"dropped its first {3 * TRIM_EVENTS} events"):
        log.open(lambda: None)
