"""How far every node of a graph is from node 0, kept up to date while edges are added: a loop in a nested scope.

    python examples/bfs.py -n 2                          # 10,000 nodes, 3 epochs of 15,000 edges
    python examples/bfs.py -w 3 --nodes 500 --edges 400

Within each epoch distances go round the loop until none gets shorter, so times are pairs (epoch, round). A probe tells
when an epoch is complete, and only then are the next edges sent: (0, 5) and (1, 0) are not ordered, so edges of epoch 1
could otherwise shorten paths of epoch 0. Every distance is compared with a plain breadth-first search.
"""

from __future__ import annotations

import argparse
from collections import deque
from functools import partial
from random import Random
from typing import Any

from hailer import Input, Probe, Product, Stream, Time, Worker, add_flags, execute_from_args

Edge = tuple[int, int]
State = tuple[int | None, list[int]]
"""What a node knows: its distance so far, and its neighbours."""


def relax(node: int, message: tuple[str, int], state: State) -> tuple[State, list[tuple[int, tuple[str, int]]]]:
    """Take in a new edge, or a path to this node; tell the neighbours if that makes them nearer."""
    distance, neighbours = state
    match message:
        case "edge", neighbour:
            neighbours.append(neighbour)
            return state, [] if distance is None else [(neighbour, ("path", distance + 1))]
        case "path", length if distance is None or length < distance:
            told = [(neighbour, ("path", length + 1)) for neighbour in neighbours]
            return (length, neighbours), [(node, ("distance", length)), *told]
    return state, []


def main(worker: Worker, graph: Graph) -> None:
    messages, probe = Input[Any]("messages"), Probe()
    distances, rounds = dict[int, int](), dict[Time, list[int]]()

    def spread(messages: Stream[Any]) -> tuple[Stream[Any], Stream[Any]]:
        """One round: what goes round again, and whose distance got shorter."""
        answers = messages.state_machine(relax, initial=lambda: (None, []), name="relax")
        found, paths = answers.branch(lambda _, answer: answer[1][0] == "path")
        nearer = found.map(lambda answer: (answer[0], answer[1][1])).aggregate(shortest, initial=None)
        nearer.count().inspect_time(note_round).leave().probe(probe)
        return paths, nearer

    def note_round(time: Time, nodes: int) -> None:
        assert isinstance(time, Product)
        rounds.setdefault(time.outer, []).append(nodes)

    with worker.dataflow("bfs") as scope:
        nearer = messages.stream(scope).iterate(spread)
        nearer.exchange(lambda _: 0, name="gather").inspect_batch(lambda _, rows: distances.update(rows)).probe(probe)

    if worker.index == 0:
        messages.send((0, ("path", 0)))
    for epoch, edges in enumerate(graph.epochs):
        messages.send_batch([(one, ("edge", other)) for one, other in edges[worker.index :: worker.peers]])
        messages.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(messages.time))
        if worker.index == 0:
            graph.check(epoch, distances)
            print(f"epoch {epoch}: {len(distances)} nodes are reached, the farthest at {max(distances.values())}")
            print(f"  nearer by round: {' '.join(map(str, rounds[epoch]))}", flush=True)


def shortest(node: int, distance: int, best: int | None) -> int:
    return distance if best is None else min(distance, best)


class Graph:
    """Random directed edges, the same on every worker, some more in each epoch."""

    def __init__(self, seed: int, *, nodes: int, edges: int, epochs: int) -> None:
        random = Random(seed)
        self.epochs: list[list[Edge]] = [
            [(random.randrange(nodes), random.randrange(nodes)) for _ in range(edges)] for _ in range(epochs)
        ]

    def check(self, epoch: int, distances: dict[int, int]) -> None:
        """Compare with a breadth-first search over the edges so far."""
        expected = self._search(epoch)
        if distances != expected:
            wrong = min(node for node in distances | expected if distances.get(node) != expected.get(node))
            raise DistancesDiffer(f"node {wrong} is at {distances.get(wrong)}, not at {expected.get(wrong)}")

    def _search(self, epoch: int) -> dict[int, int]:
        neighbours: dict[int, list[int]] = {}
        for edges in self.epochs[: epoch + 1]:
            for one, other in edges:
                neighbours.setdefault(one, []).append(other)
        distances, queue = {0: 0}, deque([0])
        while queue:
            node = queue.popleft()
            for neighbour in neighbours.get(node, ()):
                if neighbour not in distances:
                    distances[neighbour] = distances[node] + 1
                    queue.append(neighbour)
        return distances


class DistancesDiffer(Exception):
    """The dataflow and the plain search disagree."""


def read_arguments() -> Graph:
    parser = argparse.ArgumentParser(description="Distances in a growing graph, by a loop in a nested scope.")
    parser.add_argument("--nodes", type=int, default=10_000, metavar="N", help="nodes (10000)")
    parser.add_argument("--edges", type=int, default=15_000, metavar="N", help="edges per epoch (15000)")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="epochs (3)")
    parser.add_argument("--seed", type=int, default=2, metavar="N", help="of the random edges (2)")
    add_flags(parser)
    flags = parser.parse_args()
    if min(flags.nodes, flags.edges, flags.epochs) < 1:
        parser.error("--nodes, --edges and --epochs are at least 1")
    return Graph(flags.seed, nodes=flags.nodes, edges=flags.edges, epochs=flags.epochs)


if __name__ == "__main__":
    execute_from_args(partial(main, graph=read_arguments()))
