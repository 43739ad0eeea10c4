"""The shape of one scope, compiled once for its tracker.

A `Graph` lists the operators of a scope (node 0 stands for the scope's own surroundings: its outputs are the scope's
inputs and its inputs the scope's outputs), what each operator may do to times between its inputs and its outputs,
and the edges. `compile` numbers the locations, in the same order on every worker, checks that every cycle advances
the time, and summarizes all paths to the scope's outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from framework.errors import CycleDoesNotAdvance
from framework.progress.antichain import Antichain
from framework.progress.domain import Domain
from framework.progress.location import Location, Source, Target
from framework.progress.summary import Summary, advances, followed_by

Connectivity = Sequence[Sequence[Antichain[Summary]]]
"""Per input, per output of an operator: the summaries of the paths between them; none if there is no path."""


@dataclass(slots=True)
class Node:
    """An operator as progress tracking sees it."""

    name: str
    inputs: int
    outputs: int
    connection: Connectivity


@dataclass(frozen=True, slots=True)
class Compiled:
    """A graph ready for tracking; locations are numbers from here on."""

    domain: Domain
    locations: list[Location]
    ids: dict[Location, int]
    successors: list[list[tuple[int, Summary]]]
    """Per location, where a time goes next and what happens to it on the way."""
    to_outputs: list[list[tuple[int, Antichain[Summary]]]]
    """Per location, the summaries of all paths to each output of the scope; empty for the scope's own inputs."""
    through: list[list[Antichain[Summary]]]
    """Per input, per output of the scope: the summaries of all paths between them."""


@dataclass(slots=True)
class Graph:
    """Operators and edges of one scope; `nodes[0]` is the outside."""

    domain: Domain
    nodes: list[Node] = field(default_factory=list)
    edges: dict[Source, list[Target]] = field(default_factory=dict)

    def compile(self) -> Compiled:
        """Number, check and summarize."""
        locations: list[Location] = []
        for index, node in enumerate(self.nodes):
            locations.extend(Target(index, port) for port in range(node.inputs))
            locations.extend(Source(index, port) for port in range(node.outputs))
        ids = {location: number for number, location in enumerate(locations)}
        successors: list[list[tuple[int, Summary]]] = [[] for _ in locations]
        for index, node in enumerate(self.nodes[1:], start=1):
            for input_port in range(node.inputs):
                for output_port in range(node.outputs):
                    for summary in node.connection[input_port][output_port]:
                        successors[ids[Target(index, input_port)]].append((ids[Source(index, output_port)], summary))
        for source, targets in self.edges.items():
            successors[ids[source]].extend((ids[target], self.domain.identity) for target in targets)
        self._check_cycles(locations, successors)
        return self._summarize(locations, ids, successors)

    def _check_cycles(self, locations: list[Location], successors: list[list[tuple[int, Summary]]]) -> None:
        """Every step advances or leaves the time as it is, so a cycle advances it unless all of its steps leave it."""
        still = [[follower for follower, summary in steps if not advances(summary)] for steps in successors]
        waiting = [0] * len(locations)
        for followers in still:
            for follower in followers:
                waiting[follower] += 1
        ready = [number for number, count in enumerate(waiting) if count == 0]
        while ready:
            for follower in still[ready.pop()]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        if any(waiting):
            cycle = self._find_cycle(still, {number for number, count in enumerate(waiting) if count})
            names: list[str] = []
            for number in cycle:
                name = self.nodes[locations[number].node].name
                if not names or names[-1] != name:
                    names.append(name)
            raise CycleDoesNotAdvance(
                f"the loop {' -> '.join([*names, names[0]])} does not advance the time, so its frontier could never "
                f"move; close the loop with `feedback`, or give one of its operators a summary that advances"
            )

    @staticmethod
    def _find_cycle(still: list[list[int]], stuck: set[int]) -> list[int]:
        """Of the locations on or behind a cycle, one cycle: walk backwards until a location comes up again."""
        before: dict[int, int] = {}
        for number in stuck:
            for follower in still[number]:
                if follower in stuck:
                    before[follower] = number
        path = [min(stuck)]
        while before[path[-1]] not in path:
            path.append(before[path[-1]])
        cycle = path[path.index(before[path[-1]]) :]
        return cycle[::-1]

    def _summarize(
        self, locations: list[Location], ids: dict[Location, int], successors: list[list[tuple[int, Summary]]]
    ) -> Compiled:
        outside = self.nodes[0]
        predecessors: list[list[tuple[int, Summary]]] = [[] for _ in locations]
        for number, steps in enumerate(successors):
            for follower, summary in steps:
                predecessors[follower].append((number, summary))
        paths: list[dict[int, Antichain[Summary]]] = [{} for _ in locations]
        for port in range(outside.inputs):
            # Backwards from the scope's output; what is no improvement is not followed further.
            paths[ids[Target(0, port)]][port] = Antichain([self.domain.identity])
            worklist: list[tuple[int, Summary]] = [(ids[Target(0, port)], self.domain.identity)]
            while worklist:
                number, rest = worklist.pop()
                for before, summary in predecessors[number]:
                    path = followed_by(summary, rest)
                    if path is not None and paths[before].setdefault(port, Antichain()).insert(path):
                        worklist.append((before, path))
        through = [
            [paths[ids[Source(0, scope_input)]].get(port, Antichain()) for port in range(outside.inputs)]
            for scope_input in range(outside.outputs)
        ]
        inputs = {ids[Source(0, scope_input)] for scope_input in range(outside.outputs)}
        to_outputs = [
            [] if number in inputs else sorted(to_output.items(), key=lambda item: item[0])
            for number, to_output in enumerate(paths)
        ]
        return Compiled(self.domain, locations, ids, successors, to_outputs, through)
