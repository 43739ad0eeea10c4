"""A loop that stands still is refused by name; what compiles is in `tests/property/test_graph.py`."""

from __future__ import annotations

import pytest

from framework.errors import CycleDoesNotAdvance
from framework.progress.antichain import Antichain
from framework.progress.domain import Domain
from framework.progress.graph import Graph, Node
from framework.progress.location import Source, Target
from framework.progress.summary import Local, Outer, Summary


def loop(domain: Domain, closing: Summary) -> Graph:
    """input -> join -> step -> close -> join, and step -> output."""
    identity = Antichain([domain.identity])
    graph = Graph(
        domain,
        [
            Node("outside", 1, 1, []),
            Node("join", 2, 1, [[identity], [identity]]),
            Node("step", 1, 1, [[identity]]),
            Node("close", 1, 1, [[Antichain([closing])]]),
        ],
    )
    graph.edges = {
        Source(0, 0): [Target(1, 0)],
        Source(1, 0): [Target(2, 0)],
        Source(2, 0): [Target(3, 0), Target(0, 0)],
        Source(3, 0): [Target(1, 1)],
    }
    return graph


@pytest.mark.parametrize(("domain", "still"), [(Domain(0), 0), (Domain(1), Local(0)), (Domain(2), Local(0))])
def test_the_operators_of_a_loop_that_stands_still_are_named(domain: Domain, still: Summary):
    with pytest.raises(CycleDoesNotAdvance) as refusal:
        loop(domain, still).compile()
    story, _, remedy = str(refusal.value).partition(" does not advance the time, so its frontier could never move; ")
    names = story.removeprefix("the loop ").split(" -> ")
    assert names[0] == names[-1]
    assert names[1:] in (["step", "close", "join"], ["close", "join", "step"], ["join", "step", "close"])
    assert remedy == "close the loop with `feedback`, or give one of its operators a summary that advances"


@pytest.mark.parametrize(("domain", "closing"), [(Domain(0), 1), (Domain(1), Local(1)), (Domain(1), Outer(1, 0))])
def test_a_loop_that_advances_compiles(domain: Domain, closing: Summary):
    compiled = loop(domain, closing).compile()
    # Once around the loop is later than straight through, unless it forgets the iteration.
    assert compiled.through == [[Antichain([domain.identity, closing])]]
    assert len(compiled.through[0][0]) == (2 if isinstance(closing, Outer) else 1)
    ids = compiled.ids
    assert compiled.to_outputs[ids[Target(3, 0)]] == [(0, Antichain([closing]))]
    assert compiled.to_outputs[ids[Source(3, 0)]] == [(0, Antichain([domain.identity, closing]))]
    assert compiled.to_outputs[ids[Source(0, 0)]] == []


def test_locations_are_numbered_in_order_inputs_first():
    compiled = loop(Domain(0), 1).compile()
    assert compiled.locations == [
        *(Target(0, 0), Source(0, 0)),
        *(Target(1, 0), Target(1, 1), Source(1, 0)),
        *(Target(2, 0), Source(2, 0)),
        *(Target(3, 0), Source(3, 0)),
    ]


def test_the_steps_of_a_path_count_in_their_order():
    """Two iterations and then the next outer time is not the next outer time and then two iterations."""
    domain = Domain(1)
    graph = Graph(
        domain,
        [
            Node("outside", 2, 1, []),
            Node("iterate", 1, 1, [[Antichain([Local(2)])]]),
            Node("advance", 1, 1, [[Antichain([Outer(1, 0)])]]),
            Node("iterate", 1, 1, [[Antichain([Local(2)])]]),
        ],
    )
    graph.edges = {
        Source(0, 0): [Target(1, 0)],
        Source(1, 0): [Target(2, 0)],
        Source(2, 0): [Target(3, 0), Target(0, 0)],
        Source(3, 0): [Target(0, 1)],
    }
    assert graph.compile().through == [[Antichain([Outer(1, 0)]), Antichain([Outer(1, 2)])]]
