"""Which states are told apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from framework.simulation.fingerprint import fingerprint


@dataclass(slots=True)
class Thing:
    value: object
    steps: int = 0
    others: list[Thing] = field(default_factory=list)


def counting(upto: int) -> Iterator[None]:
    n = 0
    while n < upto:
        n += 1
        yield


def test_what_is_equal_inside_is_equal():
    assert fingerprint(Thing({1: "a", 2: "b"})) == fingerprint(Thing({2: "b", 1: "a"}))


def test_what_only_counts_does_not_count():
    assert fingerprint(Thing(1, steps=3)) == fingerprint(Thing(1, steps=4))


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, "1"), ([1, 2], [2, 1]), (deque([1]), deque([2])), ({1}, {1, 2}), ((1, (2,)), ((1, 2),))],
)
def test_what_differs_inside_differs(one: object, other: object):
    assert fingerprint(Thing(one)) != fingerprint(Thing(other))


def test_a_program_is_where_it_is():
    one, other = counting(3), counting(3)
    next(one), next(other)
    assert fingerprint(one) == fingerprint(other)
    next(other)
    assert fingerprint(one) != fingerprint(other)


def test_a_closure_is_looked_into():
    def remembering(value: list[int]) -> object:
        return lambda: value

    assert fingerprint(remembering([1])) == fingerprint(remembering([1])) != fingerprint(remembering([2]))


def test_one_thing_twice_is_not_two_things():
    one = Thing(1)
    assert fingerprint([one, one]) != fingerprint([one, Thing(1)])


def test_things_may_go_around():
    one = Thing(1)
    one.others.append(one)
    assert fingerprint(one) != fingerprint(Thing(1))


def test_what_cannot_be_looked_into_raises():
    with pytest.raises(TypeError, match="no looking into"):
        fingerprint(iter([1]))
