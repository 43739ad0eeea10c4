"""Requests and answers come through JSON as they were."""

from __future__ import annotations

import json

import pytest

from framework.membership.members import WorkerId
from operators.admin.errors import BadRequest
from operators.admin.json_codec import MalformedMessage, to_json
from operators.control.worker_messages import (
    REQUESTS,
    AskExplanation,
    AskPlan,
    BeginRescale,
    CancelPlan,
    CheckMayLeave,
    PlanShare,
    PlanState,
    Request,
    RunPlan,
    read_answer,
    read_request,
)
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer

PLAN = Plan((Step((Transfer(BinId(17), WorkerId(0), WorkerId(2)),)),))
STATE = PlanState(0, True, None, 1.5, 0.01, False, 1, 1, 1, 1)


@pytest.mark.parametrize("request_", [RunPlan(PLAN, 0.5), AskExplanation(None), AskExplanation("map"), CancelPlan()])
def test_a_request_comes_as_it_was_sent(request_: Request[object]):
    name, arguments = type(request_).__name__, json.loads(json.dumps(to_json(request_)))
    assert read_request(name, arguments) == request_


def test_all_requests_are_in_the_table():
    assert {request.__name__ for request in Request.__subclasses__()} == set(REQUESTS)


def test_an_answer_is_of_the_type_that_its_request_names():
    assert read_answer(BeginRescale(), to_json(STATE)) == STATE
    assert read_answer(BeginRescale(), None) is None
    assert read_answer(AskPlan(), to_json(PlanShare(STATE, 7))) == PlanShare(STATE, 7)
    read_answer(CheckMayLeave(), None)
    with pytest.raises(MalformedMessage, match="lacks 'shipped_bytes'"):
        read_answer(AskPlan(), {"plan": None})


def test_a_request_that_is_not_known_is_refused():
    with pytest.raises(BadRequest, match="a worker knows no request 'Dance'"):
        read_request("Dance", {})
