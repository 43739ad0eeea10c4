"""A plan as a value: printed, kept as JSON, tried out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.commands import Control, Move
from routing.errors import PlanInvalid
from routing.migration import Plan, Step, Transfer


def transfer(bin_id: int, source: int, target: int, state_bytes: int = 0) -> Transfer:
    return Transfer(BinId(bin_id), WorkerId(source), WorkerId(target), state_bytes)


PLAN = Plan((Step((transfer(3, 0, 1, 500), transfer(12, 2, 0, 12_000))), Step((transfer(3, 1, 2, 500),))))


def test_a_plan_prints_as_a_table():
    assert str(PLAN).splitlines() == [
        "step  bins  bytes  bin: from→to",
        "   0     2  12500  3: 0→1, 12: 2→0",
        "   1     1    500  3: 1→2",
    ]
    assert str(Plan(())) == "step  bins  bytes  bin: from→to"


def test_a_plan_adds_up():
    assert (PLAN.bins, PLAN.state_bytes, [step.state_bytes for step in PLAN.steps]) == (3, 13_000, [12_500, 500])


def test_a_step_is_one_set_of_controls():
    assert PLAN.steps[0].controls(9) == [
        Control(9, 2, Move(BinId(3), WorkerId(1))),
        Control(9, 2, Move(BinId(12), WorkerId(0))),
    ]


def test_a_plan_goes_through_json():
    text = json.dumps(PLAN.to_dict())
    assert json.loads(text)["steps"][1] == [{"bin": 3, "from": 1, "to": 2, "bytes": 500}]
    assert Plan.from_dict(json.loads(text)) == PLAN


MOVE = {"bin": 1, "from": 0, "to": 2, "bytes": 0}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "a plan is"),
        ([], "a plan is"),
        ({}, "a plan is"),
        ({"steps": {}}, "a plan is"),
        ({"steps": [], "more": 1}, "a plan is"),
        ({"steps": [[]]}, "step 0 is not a list of moves"),
        ({"steps": [[MOVE], MOVE]}, "step 1 is not a list of moves"),
        ({"steps": [[MOVE], [MOVE, MOVE]]}, "step 1 moves a bin more than once"),
        ({"steps": [[{**MOVE, "bin": -1}]]}, "step 0 has a move that is not like"),
        ({"steps": [[{**MOVE, "to": "2"}]]}, "step 0 has a move that is not like"),
        ({"steps": [[{**MOVE, "bytes": 1.5}]]}, "step 0 has a move that is not like"),
        ({"steps": [[{**MOVE, "from": True}]]}, "step 0 has a move that is not like"),
        ({"steps": [[{**MOVE, "why": "not"}]]}, "step 0 has a move that is not like"),
        ({"steps": [[{"bin": 1, "to": 2}]]}, "step 0 has a move that is not like"),
        ({"steps": [["M"]]}, "step 0 has a move that is not like"),
    ],
)
def test_what_is_no_plan_is_refused(document: Any, message: str):
    with pytest.raises(PlanInvalid, match=message):
        Plan.from_dict(document)


def test_a_plan_is_tried_out_on_owners():
    owners = [WorkerId(0)] * 12 + [WorkerId(2)]
    assert PLAN.apply(owners) == [0, 0, 0, 2, *[0] * 9]
    assert owners[12] == 2


def test_a_plan_for_other_owners_is_refused():
    with pytest.raises(PlanInvalid, match="step 0 moves bin 12 from worker 2, but worker 0 owns it by then"):
        PLAN.apply([WorkerId(0)] * 13)
    with pytest.raises(PlanInvalid, match="step 0 moves bin 12, but the bins are 0 to 3"):
        PLAN.apply([WorkerId(0)] * 4)


def test_what_is_left_of_a_plan():
    assert PLAN.after(1) == Plan(PLAN.steps[1:])
    assert PLAN.after(2) == Plan(())
