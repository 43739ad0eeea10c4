"""Dataclasses go through JSON and come back, and what is no such dataclass is refused by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, NewType

import pytest

from framework.progress.order import Product, Time
from operators.admin.json_codec import MalformedMessage, from_json, to_json
from routing.bins import BinId
from routing.migration.plan import Plan, Step, Transfer

Id = NewType("Id", int)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Whole:
    id: Id
    frontier: tuple[Time, ...]
    parts: tuple[Part, ...]
    keys: dict[Id, int]
    state: Literal["up", "down"]
    silent: str | None
    number: int | None = None


WHOLE = Whole(Id(3), (4, Product(Product(4, 1), 2)), (Part("a", 0.5), Part("b", 1)), {Id(7): 1}, "up", None)
DOCUMENT: dict[str, Any] = {
    "id": 3,
    "frontier": [4, [[4, 1], 2]],
    "parts": [{"name": "a", "share": 0.5}, {"name": "b", "share": 1}],
    "keys": {"7": 1},
    "state": "up",
    "silent": None,
}


def test_a_dataclass_is_an_object_without_what_has_its_default():
    assert to_json(WHOLE) == DOCUMENT
    assert from_json(Whole, json.loads(json.dumps(DOCUMENT))) == WHOLE
    numbered = from_json(Whole, {**DOCUMENT, "number": 9})
    assert (numbered.number, to_json(numbered)["number"]) == (9, 9)


def test_a_class_that_says_itself_what_it_is_does_so():
    plan = Plan((Step((Transfer(BinId(17), Id(0), Id(2)),)),))  # type: ignore[arg-type]
    assert to_json(plan) == plan.to_dict()
    assert from_json(Plan, to_json(plan)) == plan


def test_what_is_optional_may_be_all_there_is():
    assert from_json(Part | None, None) is None
    assert from_json(Part | None, {"name": "a", "share": 2}) == Part("a", 2)
    assert from_json(type(None), None) is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "3"}, "id is '3', not int"),
        ({"id": True}, "id is True, not int"),
        ({"frontier": [[1, 2, 3]]}, r"frontier\[0\] is \[1, 2, 3\], not time"),
        ({"parts": [{"name": "a"}]}, r"parts\[0\] lacks 'share'"),
        ({"parts": {}}, "parts is {}, not list"),
        ({"keys": {"seven": 1}}, "keys is {'seven': 1}, not object with keys of int"),
        ({"state": "sideways"}, "state is 'sideways', not one of 'up', 'down'"),
        ({"silent": 0}, "silent is 0, not str"),
        ({"more": 0}, "Whole has 'more', which is not known here"),
    ],
)
def test_what_is_malformed_is_named(change: dict[str, Any], complaint: str):
    with pytest.raises(MalformedMessage, match=rf"{complaint}; the other end may be another version of Hailer"):
        from_json(Whole, {**DOCUMENT, **change})
    with pytest.raises(MalformedMessage, match="the message is 5, not Whole"):
        from_json(Whole, 5)
