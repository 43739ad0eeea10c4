"""Times, summaries and graphs for hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from framework.progress.antichain import Antichain
from framework.progress.domain import Domain
from framework.progress.graph import Graph, Node
from framework.progress.location import Source, Target
from framework.progress.order import EPOCH_MAX, Product, Time
from framework.progress.summary import Local, Outer, Summary, advances

DEPTHS = st.integers(0, 2)

_SMALL = st.integers(0, 4)
_ANY = st.one_of(_SMALL, st.sampled_from((EPOCH_MAX - 1, EPOCH_MAX)))


def times(depth: int, *, small: bool = True) -> st.SearchStrategy[Time]:
    """Times of a scope with `depth` nested coordinates; near zero, or also near the last one."""
    numbers = _SMALL if small else _ANY
    if depth == 0:
        return numbers
    return st.builds(Product, times(depth - 1, small=small), numbers)


def summaries(depth: int, *, small: bool = True, advancing: bool = False) -> st.SearchStrategy[Summary]:
    """Summaries for such times."""
    numbers = st.integers(0, 3) if small else _ANY
    if depth == 0:
        return numbers.filter(bool) if advancing else numbers
    local = st.builds(Local, numbers.filter(bool) if advancing else numbers)
    return st.one_of(local, st.builds(Outer, summaries(depth - 1, small=small, advancing=True), numbers))


def connections(depth: int) -> st.SearchStrategy[Antichain[Summary]]:
    """What an operator may do to times between an input and an output."""
    identity = st.just(Antichain([Domain(depth).identity]))
    return st.one_of(identity, identity, st.lists(summaries(depth), max_size=3).map(Antichain))


@st.composite
def graphs(draw: st.DrawFn, depth: int, *, cyclic: bool = True) -> Graph:
    """Operators in order, each fed by earlier ones; loops go back through operators that advance all times."""
    domain = Domain(depth)
    scope_inputs, scope_outputs = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    graph = Graph(domain, [Node("outside", scope_outputs, scope_inputs, [])])
    open_sources = [Source(0, port) for port in range(scope_inputs)]
    graph.edges = {source: [] for source in open_sources}
    late: list[Target] = []
    for index in range(1, draw(st.integers(1, 5)) + 1):
        advancing = cyclic and draw(st.booleans())
        inputs, outputs = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        paths = (
            st.lists(summaries(depth, advancing=True), max_size=2).map(Antichain) if advancing else connections(depth)
        )
        connection = [[draw(paths) for _ in range(outputs)] for _ in range(inputs)]
        graph.nodes.append(Node(f"operator {index}", inputs, outputs, connection))
        for port in range(inputs):
            if advancing and draw(st.booleans()):
                late.append(Target(index, port))
            elif open_sources:
                graph.edges[draw(st.sampled_from(open_sources))].append(Target(index, port))
        for port in range(outputs):
            open_sources.append(Source(index, port))
            graph.edges[Source(index, port)] = []
    if open_sources:
        for target in [*late, *(Target(0, port) for port in range(scope_outputs))]:
            graph.edges[draw(st.sampled_from(open_sources))].append(target)
    return graph


@st.composite
def tangles(draw: st.DrawFn) -> tuple[Graph, bool]:
    """Graphs with any edges at all, and whether some cycle leaves the time as it is."""
    graph = Graph(Domain(0), [Node("outside", 1, 1, [])])
    graph.edges = {Source(0, 0): []}
    steps: set[tuple[object, object]] = set()
    targets: list[Target] = [Target(0, 0)]
    for index in range(1, draw(st.integers(1, 4)) + 1):
        inputs, outputs = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        paths: st.SearchStrategy[Antichain[Summary]] = st.lists(st.integers(0, 1), max_size=1).map(Antichain)
        connection = [[draw(paths) for _ in range(outputs)] for _ in range(inputs)]
        graph.nodes.append(Node(f"operator {index}", inputs, outputs, connection))
        targets += [Target(index, port) for port in range(inputs)]
        graph.edges |= {Source(index, port): [] for port in range(outputs)}
        steps |= {
            (Target(index, i), Source(index, o))
            for i in range(inputs)
            for o in range(outputs)
            if any(not advances(summary) for summary in connection[i][o])
        }
    for target in targets:
        source = draw(st.sampled_from(sorted(graph.edges)))
        graph.edges[source].append(target)
        steps.add((source, target))
    reached = set(steps)
    while True:
        further = {(a, d) for a, b in reached for c, d in steps if b == c} - reached
        if not further:
            return graph, any(a == b for a, b in reached)
        reached |= further
