"""`bfs.py`: a loop in a nested scope finds the same distances on any number of workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.program import example
from tests.processes import free_ports, run, run_together

SMALL = ("--nodes", "500", "--edges", "600", "--seed", "5")
EXPECTED = [
    "epoch 0: 158 nodes are reached, the farthest at 20",
    "  nearer by round: 1 3 3 5 5 9 9 8 6 7 9 13 16 22 13 10 5 4 4 3 3",
    "epoch 1: 434 nodes are reached, the farthest at 12",
    "  nearer by round: 137 168 163 158 129 70 38 12 3 1 1",
    "epoch 2: 479 nodes are reached, the farthest at 8",
    "  nearer by round: 134 113 109 72 26 3 1",
]


@pytest.mark.parametrize("flags", [(), ("-n", "2"), ("-w", "3"), ("-n", "2", "-w", "2")])
def test_distances_in_a_growing_graph(flags: tuple[str, ...], tmp_path: Path):
    assert run(*example("bfs.py", *SMALL, *flags), state=tmp_path).lines == EXPECTED


def test_the_default_graph_in_two_terminals(tmp_path: Path):
    port = str(free_ports(2))
    first, second = run_together(
        [example("bfs.py", "-n2", "-p", str(process), "--base-port", port) for process in (0, 1)], state=tmp_path
    )
    assert [line for line in first.lines if line.startswith("epoch")] == [
        "epoch 0: 5778 nodes are reached, the farthest at 32",
        "epoch 1: 9425 nodes are reached, the farthest at 13",
        "epoch 2: 9888 nodes are reached, the farthest at 11",
    ]
    assert second.lines == []
