"""Maximum bipartite matching, by Hopcroft and Karp (1973).

Each round finds the length of the shortest augmenting paths breadth first, and flips a maximal set of disjoint paths of
that length depth first. There are O(√V) rounds of O(E) each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

L = TypeVar("L", bound=Hashable)
R = TypeVar("R", bound=Hashable)


def maximum_matching(edges: Mapping[L, Sequence[R]], start: Mapping[L, R] | None = None) -> dict[L, R]:
    """As many pairs of a left and a right vertex joined by an edge as there can be, with no vertex in two.

    The same edges in the same order give the same pairs. A matching to `start` from, if there is one, saves work.

    >>> maximum_matching({"a": ["x", "y"], "b": ["x"], "c": ["x"]})
    {'a': 'y', 'b': 'x'}
    """
    left = dict(start or {})
    right = {other: vertex for vertex, other in left.items()}
    while layers := _layers(edges, left, right):
        for vertex in edges:
            if vertex not in left:
                _augment(vertex, edges, layers, left, right)
    return {vertex: left[vertex] for vertex in edges if vertex in left}


def _layers(edges: Mapping[L, Sequence[R]], left: dict[L, R], right: dict[R, L]) -> dict[L, int]:
    """The distance of each left vertex from a free one, along alternating paths; empty if none of them augments."""
    layers = {vertex: 0 for vertex in edges if vertex not in left}
    waiting = deque(layers)
    augments = False
    while waiting:
        vertex = waiting.popleft()
        for other in edges[vertex]:
            mate = right.get(other)
            if mate is None:
                augments = True
            elif mate not in layers:
                layers[mate] = layers[vertex] + 1
                waiting.append(mate)
    return layers if augments else {}


def _augment(
    start: L, edges: Mapping[L, Sequence[R]], layers: dict[L, int], left: dict[L, R], right: dict[R, L]
) -> None:
    """Flip an augmenting path from a free vertex down the layers, if one is left. Without recursion: paths are long."""
    path: list[tuple[L, R]] = []
    stack = [(start, iter(edges[start]))]
    while stack:
        vertex, candidates = stack[-1]
        for other in candidates:
            mate = right.get(other)
            if mate is None:
                for one, two in [*path, (vertex, other)]:
                    left[one], right[two] = two, one
                return
            if layers.get(mate) == layers[vertex] + 1:
                path.append((vertex, other))
                stack.append((mate, iter(edges[mate])))
                break
        else:
            layers[vertex] = -1  # A dead end for the rest of the round.
            stack.pop()
            if path:
                path.pop()
