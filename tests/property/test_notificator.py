"""Notifications against their definition: each time once, earliest first, when nothing at or before it can arrive."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.dataflow.capability import Capability
from framework.dataflow.notificator import Notificator
from framework.dataflow.operator import Activator, BuiltOperator
from framework.membership.members import WorkerId
from framework.progress.antichain import Antichain, mutable_antichain
from framework.progress.change_batch import ChangeBatch
from framework.progress.domain import Domain
from framework.progress.order import linear_key
from tests.property.strategies import DEPTHS, times


def operator_with(inputs: int, depth: int) -> BuiltOperator:
    """An operator that no scope schedules."""

    def nothing(*_: object) -> None:
        pass

    operator = BuiltOperator("waits", "0.1", WorkerId(0), Domain(depth), Activator(nothing, nothing, nothing, nothing))
    for _ in range(inputs):
        operator.add_input()
    operator.add_output()
    return operator


@given(st.data(), DEPTHS, st.integers(1, 3))
def test_notifications(data: st.DataObject, depth: int, inputs: int):
    operator = operator_with(inputs, depth)
    [output] = operator.outputs
    frontiers = [mutable_antichain(Domain(depth)) for _ in range(inputs)]
    notificator = Notificator(operator, frontiers)
    waiting: set[Any] = set()
    current: list[Antichain[Any]] = [Antichain() for _ in range(inputs)]
    for _ in range(data.draw(st.integers(1, 6))):
        for time in data.draw(st.lists(times(depth), max_size=4)):
            notificator.notify_at(Capability(time, output))
            waiting.add(time)
        for port, frontier in enumerate(frontiers):
            following = Antichain(data.draw(st.lists(times(depth), max_size=3)))
            for time in current[port]:
                frontier.update(time, -1)
            for time in following:
                frontier.update(time, 1)
            current[port] = following
        complete = {time for time in waiting if not any(frontier.less_equal(time) for frontier in current)}
        delivered = []
        for capability in notificator:
            assert capability.held
            assert operator.time == capability.time
            delivered.append(capability.time)
        assert operator.time is None
        assert set(delivered) == complete
        assert delivered == sorted(complete, key=linear_key)
        waiting -= complete
        assert notificator.pending() == sorted(waiting, key=linear_key)
        held: ChangeBatch[Any] = ChangeBatch((time, 1) for time in waiting)
        assert dict(operator.shared.internal[0].items()) == dict(held.items())
    operator.shut_down()
    assert notificator.pending() == []
    assert len(operator.shared.internal[0]) == 0


@given(st.integers(0, 5))
def test_a_time_asked_for_during_its_own_turn_comes_again(time: int):
    operator = operator_with(1, 0)
    notificator = Notificator(operator, [mutable_antichain(Domain(0))])
    notificator.notify_at(Capability(time, operator.outputs[0]))
    turns = []
    for capability in notificator:
        turns.append(capability.time)
        if len(turns) == 1:
            notificator.notify_at(capability.clone())
            notificator.notify_at(capability.delayed(time + 1))
    assert turns == [time, time, time + 1]
    assert len(operator.shared.internal[0]) == 0
