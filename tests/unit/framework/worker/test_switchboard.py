"""Channels by number, before, during and after their time."""

from __future__ import annotations

from framework.membership.members import WorkerId
from framework.wire.messages import Data, Progress
from framework.worker.switchboard import ChannelReceiver, Switchboard

A, B = WorkerId(0), WorkerId(1)


class Ear:
    """A receiver that remembers."""

    def __init__(self) -> None:
        self.heard: list[tuple[WorkerId, Data | Progress]] = []

    def receiver(self) -> ChannelReceiver:
        return lambda sender, message: self.heard.append((sender, message))


def data(channel: int, *rows: int) -> Data:
    return Data(channel, 0, list(rows))


def test_channels_are_numbered_in_order():
    switchboard = Switchboard()
    assert [switchboard.reserve() for _ in range(3)] == [0, 1, 2]
    assert switchboard.reserved == 3


def test_messages_go_to_their_channel():
    switchboard, first, second = Switchboard(), Ear(), Ear()
    for ear in (first, second):
        switchboard.open(switchboard.reserve(), ear.receiver())
    switchboard.dispatch(A, data(1, 7))
    switchboard.dispatch(B, Progress(0, 0, ()))
    assert first.heard == [(B, Progress(0, 0, ()))]
    assert second.heard == [(A, data(1, 7))]


def test_what_comes_before_its_channel_waits_in_order():
    switchboard, ear, other = Switchboard(), Ear(), Ear()
    early = [(A, data(1, 1)), (B, data(1, 2)), (A, data(1, 3))]
    for sender, message in (*early, (A, data(2, 9))):
        switchboard.dispatch(sender, message)
    assert switchboard.early() == [*early, (A, data(2, 9))]
    switchboard.open(switchboard.reserve(), other.receiver())
    switchboard.open(switchboard.reserve(), ear.receiver())
    assert ear.heard == early
    assert other.heard == []
    assert switchboard.early() == [(A, data(2, 9))]


def test_what_comes_after_its_channel_is_dropped():
    switchboard, ear = Switchboard(), Ear()
    channels = range(switchboard.reserve(), switchboard.reserve() + 1)
    for channel in channels:
        switchboard.open(channel, ear.receiver())
    switchboard.close(channels)
    for channel in channels:
        switchboard.dispatch(A, data(channel, 1))
    assert ear.heard == []
    assert switchboard.early() == []


def test_closing_forgets_what_came_early():
    switchboard = Switchboard()
    switchboard.dispatch(A, data(0, 1))
    switchboard.reserve()
    switchboard.close(range(1))
    assert switchboard.early() == []
