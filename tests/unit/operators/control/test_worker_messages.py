"""Requests and answers come through JSON as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest
from operators.admin.json_codec import MalformedMessage, to_json
from operators.control.worker_messages import (
    REQUESTS,
    AskBins,
    AskExplanation,
    AskGoal,
    CancelGoals,
    CheckMayLeave,
    CheckRescalable,
    GoalShare,
    MovableBins,
    Request,
    StartAssign,
    StartRebalance,
    StartResize,
    Unmoved,
    read_answer,
    read_request,
)
from routing.bins import BinId
from routing.load import BinWeight
from routing.migration.goals import GoalState, Pace

STATE = GoalState(0, "map", "under way", "3 bins are to move", 1.5, 0.01, 1, 4, 100, 400)
MOVABLE = MovableBins("bins8", (WorkerId(0),), (WorkerId(0), WorkerId(1)), {BinId(0): BinWeight(3, 30, 0.5)})


@pytest.mark.parametrize(
    "request_",
    [
        StartAssign("move", None, {BinId(17): WorkerId(2)}, False, Pace("fluid", 0.5)),
        StartAssign("map", "bins8", {BinId(0): WorkerId(1)}, True, Pace()),
        StartRebalance("rebalance", Pace()),
        StartResize("scale to 3", (WorkerId(2),), (), Pace()),
        AskExplanation(None),
        AskExplanation("map"),
        CancelGoals(),
    ],
)
def test_a_request_comes_as_it_was_sent(request_: Request[object]):
    name, arguments = type(request_).__name__, json.loads(json.dumps(to_json(request_)))
    assert read_request(name, arguments) == request_


def test_all_requests_are_in_the_table():
    assert {request.__name__ for request in Request.__subclasses__()} == set(REQUESTS)


def test_an_answer_is_of_the_type_that_its_request_names():
    answers: list[tuple[Request[Any], object]] = [
        (StartResize("scale to 3", (), (), Pace()), None),
        (StartResize("scale to 3", (), (), Pace()), 7),
        (AskGoal(0), GoalShare(7, "worker 1 owns bins", STATE)),
        (AskBins(), (MOVABLE,)),
        (CancelGoals(), (STATE, STATE)),
        (CheckRescalable(), Unmoved(("sums",))),
        (CheckMayLeave(), None),
    ]
    for request, answer in answers:
        assert read_answer(request, json.loads(json.dumps(to_json(answer)))) == answer
    with pytest.raises(MalformedMessage, match="lacks 'received_bytes'"):
        read_answer(AskGoal(0), {"goal": None})


def test_a_request_that_is_not_known_is_refused():
    with pytest.raises(BadRequest, match="a worker knows no request 'Dance'"):
        read_request("Dance", {})
