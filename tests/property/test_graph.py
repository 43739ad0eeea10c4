"""Compiled graphs against their definition: summaries of all paths, and cycles that advance."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import CycleDoesNotAdvance
from framework.progress.antichain import Antichain
from framework.progress.graph import Graph
from framework.progress.location import Location, Source, Target
from framework.progress.summary import Summary, followed_by
from tests.property.strategies import DEPTHS, graphs, tangles

Steps = dict[Location, list[tuple[Location, Summary]]]


def steps_of(graph: Graph) -> Steps:
    """Every way to go on from every location, from the graph as it was described."""
    steps: Steps = defaultdict(list)
    for index, node in enumerate(graph.nodes[1:], start=1):
        for i, outputs in enumerate(node.connection):
            for o, summaries in enumerate(outputs):
                steps[Target(index, i)] += [(Source(index, o), summary) for summary in summaries]
    for source, targets in graph.edges.items():
        steps[source] += [(target, graph.domain.identity) for target in targets]
    return steps


def paths(steps: Steps, start: Location, identity: Summary, rounds: int) -> dict[Location, Antichain[Summary]]:
    """The summaries of all paths from `start` of up to `rounds` steps: enough to pass every location twice."""
    found: dict[Location, Antichain[Summary]] = defaultdict(Antichain)
    found[start].insert(identity)
    reached: set[tuple[Location, Summary]] = {(start, identity)}
    for _ in range(rounds):
        reached = {
            (following, further)
            for location, summary in reached
            for following, step in steps[location]
            if (further := followed_by(summary, step)) is not None and found[following].insert(further)
        }
    return found


@given(DEPTHS.flatmap(graphs))
def test_summaries_are_those_of_all_paths(graph: Graph):
    compiled = graph.compile()
    steps, outside = steps_of(graph), graph.nodes[0]
    rounds = 2 * len(compiled.locations) + 2
    for number, location in enumerate(compiled.locations):
        assert compiled.ids[location] == number
        found = paths(steps, location, graph.domain.identity, rounds)
        to_outputs = {port: found[Target(0, port)] for port in range(outside.inputs) if found[Target(0, port)]}
        if isinstance(location, Source) and location.node == 0:
            assert compiled.to_outputs[number] == []
            assert [paths_to or Antichain() for paths_to in compiled.through[location.port]] == [
                to_outputs.get(port, Antichain()) for port in range(outside.inputs)
            ]
        else:
            assert dict(compiled.to_outputs[number]) == to_outputs
            ports = [port for port, _ in compiled.to_outputs[number]]
            assert ports == sorted(ports)


@given(DEPTHS.flatmap(graphs))
def test_successors_are_the_steps_of_the_graph(graph: Graph):
    compiled, steps = graph.compile(), steps_of(graph)
    for number, location in enumerate(compiled.locations):
        followers = [(compiled.locations[follower], summary) for follower, summary in compiled.successors[number]]
        assert sorted(map(repr, followers)) == sorted(map(repr, steps[location]))


@given(DEPTHS.flatmap(graphs))
def test_locations_are_numbered_alike_everywhere(graph: Graph):
    first = graph.compile()
    second = Graph(graph.domain, list(graph.nodes), dict(reversed(graph.edges.items()))).compile()
    assert first.locations == second.locations


@given(st.data())
def test_a_cycle_that_leaves_the_time_as_it_is_is_refused(data: st.DataObject):
    graph, stands_still = data.draw(tangles())
    if not stands_still:
        graph.compile()
        return
    with pytest.raises(CycleDoesNotAdvance) as refusal:
        graph.compile()
    loop = str(refusal.value).removeprefix("the loop ").partition(" does not advance")[0].split(" -> ")
    assert loop[0] == loop[-1]
    names = {node.name: index for index, node in enumerate(graph.nodes)}
    edges = {(source.node, target.node) for source, targets in graph.edges.items() for target in targets}
    for one, other in pairwise(loop):
        assert (names[one], names[other]) in edges
