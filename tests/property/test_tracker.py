"""The tracker against a model that works everything out from scratch after every change."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.progress.antichain import Antichain
from framework.progress.domain import Domain
from framework.progress.graph import Compiled, Graph, Node
from framework.progress.order import EPOCH_MAX, Product, Time
from framework.progress.reachability import Tracker
from framework.progress.summary import Local, Summary, results_in
from tests.property.strategies import DEPTHS, graphs, times

Pointstamps = Counter[tuple[int, Any]]


class Model:
    """All implications of all pointstamps: Bellman and Ford on sets of least times, anew each time."""

    def __init__(self, compiled: Compiled, pointstamps: Pointstamps) -> None:
        self.own: list[Antichain[Time]] = [Antichain() for _ in compiled.locations]
        for (location, time), count in pointstamps.items():
            if count > 0:
                self.own[location].insert(time)
        self.frontiers = [Antichain(antichain) for antichain in self.own]
        changed = True
        while changed:
            changed = False
            for location, steps in enumerate(compiled.successors):
                for follower, summary in steps:
                    for time in tuple(self.frontiers[location]):
                        result = results_in(summary, time)
                        if result is not None and self.frontiers[follower].insert(result):
                            changed = True
        self.precursors: Counter[tuple[int, Any]] = Counter()
        """In how many ways a frontier here or one step before could result in a time here."""
        for location, steps in enumerate(compiled.successors):
            self.precursors.update((location, time) for time in self.own[location])
            for follower, summary in steps:
                for time in self.frontiers[location]:
                    result = results_in(summary, time)
                    if result is not None:
                        self.precursors[follower, result] += 1
        self.outputs: Counter[tuple[int, Any]] = Counter()
        for location, to_outputs in enumerate(compiled.to_outputs):
            for port, summaries in to_outputs:
                for summary in summaries:
                    for time in self.own[location]:
                        result = results_in(summary, time)
                        if result is not None:
                            self.outputs[port, result] += 1


def changes(depth: int, locations: int) -> st.SearchStrategy[list[list[tuple[int, Any, int]]]]:
    """Rounds of changes; counts may go below zero."""
    change = st.tuples(st.integers(0, locations - 1), times(depth), st.sampled_from((1, 1, 1, 2, -1, -1)))
    return st.lists(st.lists(change, max_size=4), max_size=8)


@st.composite
def tracked(draw: st.DrawFn) -> tuple[Compiled, list[list[tuple[int, Any, int]]]]:
    depth = draw(DEPTHS)
    compiled = draw(
        graphs(depth).filter(lambda graph: any(node.inputs or node.outputs for node in graph.nodes))
    ).compile()
    return compiled, draw(changes(depth, len(compiled.locations)))


@given(tracked())
def test_frontiers_are_what_pointstamps_imply(drawn: tuple[Compiled, list[list[tuple[int, Any, int]]]]):
    compiled, rounds = drawn
    tracker, pointstamps = Tracker(compiled), Pointstamps()
    told: Counter[tuple[int, Any]] = Counter()
    outputs: Counter[tuple[int, Any]] = Counter()
    for round_ in rounds:
        for location, time, delta in round_:
            tracker.update(location, time, delta)
            pointstamps[location, time] += delta
        standing = {key: count for key, count in pointstamps.items() if count}
        assert tracker.pointstamps() == standing
        assert tracker.tracking_anything() is bool(standing)
        frontier_changes, output_changes = tracker.propagate()
        model = Model(compiled, pointstamps)
        for location, time, change in frontier_changes:
            told[location, time] += change
        for port, time, change in output_changes:
            outputs[port, time] += change
        for location, frontier in enumerate(model.frontiers):
            view = tracker.frontier(location)
            assert set(view.frontier()) == set(frontier)
            assert {time for (place, time), count in told.items() if place == location and count} == set(frontier)
            assert dict(view.counts()) == {
                time: count for (place, time), count in model.precursors.items() if place == location
            }
        assert {key: count for key, count in told.items() if count not in (0, 1)} == {}
        assert {key: count for key, count in outputs.items() if count} == model.outputs
        assert tracker.pointstamps() == standing
        assert tracker.tracking_anything() is bool(standing)


@given(tracked(), st.data())
def test_is_global_by_its_definition(drawn: tuple[Compiled, list[list[tuple[int, Any, int]]]], data: st.DataObject):
    """True if nothing earlier can come here, and this time can come in one way at most."""
    compiled, rounds = drawn
    tracker, pointstamps = Tracker(compiled), Pointstamps()
    for location, time, delta in (change for round_ in rounds for change in round_):
        tracker.update(location, time, delta)
        pointstamps[location, time] += delta
    tracker.propagate()
    model = Model(compiled, pointstamps)
    for location, frontier in enumerate(model.frontiers):
        probes = {*frontier, *(time for place, time in pointstamps if place == location)}
        probes.add(data.draw(times(compiled.domain.depth)))
        for time in probes:
            dominated = any(other <= time and other != time for other in frontier)
            redundant = model.precursors[location, time] > 1
            assert tracker.is_global(location, time) is (not dominated and not redundant)


@given(tracked(), st.data())
def test_a_global_pointstamp_moves_a_frontier_and_a_least_one_is_global(
    drawn: tuple[Compiled, list[list[tuple[int, Any, int]]]], data: st.DataObject
):
    """What nothing else could result in is global: so what is withheld never holds a frontier back for ever."""
    compiled, rounds = drawn
    tracker, pointstamps = Tracker(compiled), Pointstamps()
    for location, time, delta in (change for round_ in rounds for change in round_):
        tracker.update(location, time, delta)
        pointstamps[location, time] += delta
    tracker.propagate()
    for (location, time), count in pointstamps.items():
        others = Pointstamps({key: n for key, n in pointstamps.items() if key != (location, time)})
        reached = Model(compiled, others).frontiers[location].less_equal(time)
        if count > 0 and not reached:
            assert tracker.is_global(location, time)
            tracker.update(location, time, -count)
            told, _ = tracker.propagate()
            assert (location, time, -1) in told
            tracker.update(location, time, count)
            tracker.propagate()


def lifted(graph: Graph) -> Graph:
    """The same graph on products that count epochs in their inner coordinate."""
    nodes = [
        Node(
            node.name,
            node.inputs,
            node.outputs,
            [[Antichain([_lift(summary) for summary in paths]) for paths in outputs] for outputs in node.connection],
        )
        for node in graph.nodes
    ]
    return Graph(Domain(1), nodes, graph.edges)


def _lift(summary: Summary) -> Summary:
    assert isinstance(summary, int)
    return Local(summary)


@given(st.data())
def test_the_fast_path_for_epochs_agrees_with_the_general_one(data: st.DataObject):
    graph = data.draw(graphs(0).filter(lambda graph: any(node.inputs or node.outputs for node in graph.nodes)))
    compiled, general = graph.compile(), lifted(graph).compile()
    fast_tracker, general_tracker = Tracker(compiled), Tracker(general)
    big = st.one_of(st.integers(0, 6), st.sampled_from((EPOCH_MAX - 1, EPOCH_MAX)))
    change = st.tuples(st.integers(0, len(compiled.locations) - 1), big, st.sampled_from((1, 1, 2, -1)))
    for round_ in data.draw(st.lists(st.lists(change, max_size=4), max_size=8)):
        for location, epoch, delta in round_:
            fast_tracker.update(location, epoch, delta)
            general_tracker.update(location, Product(0, epoch), delta)
        fast, slow = fast_tracker.propagate(), general_tracker.propagate()
        for told, expected in zip(fast, slow, strict=True):
            assert _net((place, time, change) for place, time, change in told) == _net(
                (place, time.inner, change) for place, time, change in expected if isinstance(time, Product)
            )
        for location in range(len(compiled.locations)):
            assert fast_tracker.frontier(location).frontier() == tuple(
                time.inner for time in general_tracker.frontier(location).frontier() if isinstance(time, Product)
            )
            for epoch in range(8):
                assert fast_tracker.is_global(location, epoch) is general_tracker.is_global(location, Product(0, epoch))


def _net(told: Any) -> dict[tuple[int, Any], int]:
    counts: Counter[tuple[int, Any]] = Counter()
    for place, time, change in told:
        counts[place, time] += change
    return {key: count for key, count in counts.items() if count}
