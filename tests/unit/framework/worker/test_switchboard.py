"""Channels by number, before, during and after their time."""

from __future__ import annotations

import pytest

from framework.dataflow.handle import InputHandle
from framework.events import Event, Events, MessageReceived, ProgressReceived
from framework.membership.members import WorkerId
from framework.progress.subgraph import Subgraph
from framework.wire.messages import Data, Progress
from framework.worker.switchboard import Switchboard
from tests.unit.framework.dataflow.taps import Catch, Tap, workers

A, B = WorkerId(0), WorkerId(1)


class Ends:
    """A switchboard, and what its channels may end at: the inputs and the scope of a dataflow."""

    def __init__(self) -> None:
        [self.worker, _] = workers(2)
        with self.worker.dataflow() as scope:
            tap = Tap(scope)
            for _ in range(2):
                Catch(scope, tap.outlet)
        ends = self.worker.channels().values()
        self.inputs = [end for end in ends if isinstance(end, InputHandle)]
        [self.scope] = [end for end in ends if isinstance(end, Subgraph)]
        self.worker.step()
        self.events: list[Event] = []
        for events in (self.worker.events, own := Events(A, lambda: 0.0)):
            events.subscribe(lambda _, at_s, event: self.events.append(event))
        self.switchboard = Switchboard(own)

    def received(self) -> list[MessageReceived | ProgressReceived]:
        """What was received, in order; a scope takes its batches when it is scheduled."""
        self.scope.schedule()
        return [event for event in self.events if isinstance(event, MessageReceived | ProgressReceived)]


@pytest.fixture
def ends() -> Ends:
    return Ends()


def data(channel: int, *rows: int) -> Data:
    return Data(channel, 0, list(rows))


def queued(input: InputHandle) -> list[object]:
    return [(time, rows) for time, rows in input.queued()]


def test_channels_are_numbered_in_order(ends: Ends):
    assert [ends.switchboard.reserve() for _ in range(3)] == [0, 1, 2]
    assert ends.switchboard.reserved == 3


def test_messages_go_to_their_channel(ends: Ends):
    switchboard, [first, second] = ends.switchboard, ends.inputs
    for end in (ends.scope, first, second):
        switchboard.open(switchboard.reserve(), end)
    assert switchboard.ends == {0: ends.scope, 1: first, 2: second}
    switchboard.dispatch(A, data(2, 7, 8))
    switchboard.dispatch(B, Progress(0, 0, ()))
    assert queued(first) == []
    assert queued(second) == [(0, [7, 8])]
    assert ends.received() == [MessageReceived(2, A, 2), ProgressReceived("0", B, 0, 0)]


def test_what_comes_before_its_channel_waits_in_order(ends: Ends):
    switchboard, [input, other] = ends.switchboard, ends.inputs
    early = [(A, data(1, 1)), (B, data(1, 2)), (A, data(1, 3))]
    for sender, message in (*early, (A, data(2, 9))):
        switchboard.dispatch(sender, message)
    assert switchboard.early() == [*early, (A, data(2, 9))]
    switchboard.open(switchboard.reserve(), other)
    switchboard.open(switchboard.reserve(), input)
    assert queued(input) == [(0, [1]), (0, [2]), (0, [3])]
    assert ends.received() == [MessageReceived(1, A, 1), MessageReceived(1, B, 1), MessageReceived(1, A, 1)]
    assert queued(other) == []
    assert switchboard.early() == [(A, data(2, 9))]


def test_progress_that_comes_before_its_channel_waits_in_order(ends: Ends):
    switchboard = ends.switchboard
    for sequence in range(2):
        switchboard.dispatch(B, Progress(0, sequence, ()))
    switchboard.open(switchboard.reserve(), ends.scope)
    assert ends.received() == [ProgressReceived("0", B, 0, 0), ProgressReceived("0", B, 1, 0)]


def test_what_comes_after_its_channel_is_dropped(ends: Ends):
    switchboard, input = ends.switchboard, ends.inputs[0]
    channels = range(switchboard.reserve(), switchboard.reserve() + 1)
    for channel in channels:
        switchboard.open(channel, input)
    switchboard.close(channels)
    for channel in channels:
        switchboard.dispatch(A, data(channel, 1))
    assert queued(input) == []
    assert ends.received() == []
    assert switchboard.ends == {}
    assert switchboard.early() == []


def test_closing_forgets_what_came_early(ends: Ends):
    switchboard = ends.switchboard
    switchboard.dispatch(A, data(0, 1))
    switchboard.reserve()
    switchboard.close(range(1))
    assert switchboard.early() == []
