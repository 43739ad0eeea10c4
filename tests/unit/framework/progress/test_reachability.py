"""The tracker by hand; that its answers are right in general is shown in `tests/property/test_tracker.py`."""

from __future__ import annotations

import pytest

from framework.progress.antichain import Antichain
from framework.progress.domain import Domain
from framework.progress.graph import Compiled, Graph, Node
from framework.progress.location import Source, Target
from framework.progress.order import Product, Time
from framework.progress.reachability import Tracker


def chain(domain: Domain) -> Compiled:
    """input -> map -> probe, in a scope without surroundings."""
    identity = Antichain([domain.identity])
    graph = Graph(
        domain,
        [
            Node("outside", 0, 0, []),
            Node("input", 0, 1, []),
            Node("map", 1, 1, [[identity]]),
            Node("probe", 1, 0, [[]]),
        ],
    )
    graph.edges = {Source(1, 0): [Target(2, 0)], Source(2, 0): [Target(3, 0)]}
    return graph.compile()


def test_a_capability_at_the_input_is_felt_everywhere_behind_it():
    compiled = chain(Domain())
    tracker, source = Tracker(compiled), compiled.ids[Source(1, 0)]
    tracker.update(source, 0, 1)
    everywhere = range(len(compiled.locations))
    assert tracker.propagate() == ([(location, 0, 1) for location in everywhere], [])
    tracker.update(source, 1, 1)
    tracker.update(source, 0, -1)
    told, _ = tracker.propagate()
    assert sorted(told) == sorted((location, time, way) for location in everywhere for time, way in ((0, -1), (1, 1)))
    assert [tracker.frontier(location).frontier() for location in everywhere] == [(1,)] * 4
    assert tracker.propagate() == ([], [])


@pytest.mark.parametrize(
    ("domain", "times"), [(Domain(), [9, 7, 5, 3, 1]), (Domain(1), [Product(0, inner) for inner in (9, 7, 5, 3, 1)])]
)
def test_what_is_noted_together_travels_together_least_time_first(domain: Domain, times: list[Time]):
    """Of times that are noted latest first, only the least is heard of: the others never enter a frontier."""
    compiled = chain(domain)
    tracker = Tracker(compiled)
    for time in times:
        tracker.update(compiled.ids[Source(1, 0)], time, 1)
    told, _ = tracker.propagate()
    assert told == [(location, times[-1], 1) for location in range(len(compiled.locations))]


def test_a_negative_count_holds_nothing_and_is_remembered():
    """Of a record that one worker took, another may hear before it hears that the record was sent."""
    compiled = chain(Domain())
    tracker, target = Tracker(compiled), compiled.ids[Target(2, 0)]
    tracker.update(target, 0, -1)
    assert tracker.propagate() == ([], [])
    assert tracker.tracking_anything()
    assert tracker.pointstamps() == {(target, 0): -1}
    tracker.update(target, 0, 1)
    assert tracker.propagate() == ([], [])
    assert not tracker.tracking_anything()
