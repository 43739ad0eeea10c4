"""What is released to a job that is behind, and whose commits are answered."""

from __future__ import annotations

import pytest

from operators.broker import flow_control
from operators.broker.flow_control import FlowControl
from operators.broker.intake import Intake


def committed(intake: Intake, *batches: int) -> None:
    for batch in batches:
        assert intake.commit("q", batch, []).new


def released(flow: FlowControl) -> list[tuple[str, int]]:
    """All that is released now."""
    found = []
    while (release := flow.release()) is not None:
        found.append((release.input, release.epoch))
    return found


def test_three_batches_are_in_the_job_at_most_and_two_are_answered():
    lines = Intake("lines")
    flow = FlowControl({"lines": lines}, {})
    committed(lines, *range(6))
    assert [flow.answers(lines, number) for number in (1, 2, 3)] == [True, True, False]
    assert released(flow) == [("lines", 0), ("lines", 1), ("lines", 2)]
    assert [flow.answers(lines, number) for number in (2, 3)] == [True, False]
    flow.complete_before(2)
    assert [flow.answers(lines, number) for number in (4, 5)] == [True, False]
    assert released(flow) == [("lines", 3), ("lines", 4)]


def test_an_input_goes_on_while_all_that_is_under_way_waits_for_another_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(flow_control, "INPUT_AHEAD_MAX", 6)
    lines, table = Intake("lines"), Intake("table")
    flow = FlowControl({"lines": lines, "table": table}, {})
    for batch in range(5):
        committed(lines, batch)
        assert flow.answers(lines, batch + 1)
        assert released(flow) == [("lines", batch)]
    committed(lines, 5, 6)
    assert not flow.answers(lines, 7)
    assert released(flow) == []
    committed(table, 0, 1)
    assert released(flow) == [("table", 0), ("table", 1)], "that which is behind goes first"
    flow.complete_before(2)
    assert flow.answers(table, 2)
    assert released(flow) == [("lines", 5), ("lines", 6)]


def test_an_input_that_has_ended_holds_no_other_back():
    lines, table = Intake("lines"), Intake("table")
    flow = FlowControl({"lines": lines, "table": table}, {})
    table.close()
    assert released(flow) == [("table", 0)]
    committed(lines, *range(4))
    assert released(flow) == [("lines", 0), ("lines", 1), ("lines", 2)]


def test_all_has_come_out_once_what_was_decided_is_released_and_complete():
    lines, table = Intake("lines"), Intake("table")
    flow = FlowControl({"lines": lines, "table": table}, {})
    committed(lines, 0, 1)
    goal = flow.settle_goal()
    flow.release()
    assert flow.settle_epoch(goal) is None
    flow.release()
    assert flow.settle_epoch(goal) == 2
    committed(lines, 2)
    assert flow.settle_epoch(goal) == 2, "that came later"
