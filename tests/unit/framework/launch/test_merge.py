"""`example` on several workers returns one value."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from framework.errors import GraphError
from framework.launch.merge import merge
from operators import Extracted, Scope, example, iterator_source


class Ends(NamedTuple):
    small: list[Extracted[str]]
    large: dict[str, tuple[Extracted[str]]]


def extracted(*rows: str, time: int = 0) -> Extracted[str]:
    part = Extracted[str]()
    part.add(time, list(rows))
    return part


def test_one_result_is_itself():
    thing = object()
    assert merge([thing]) is thing


def test_parts_are_merged_wherever_they_are():
    one, other = extracted("a", "b"), extracted("c")
    merged = merge([Ends([one], {"x": (other,)}), Ends([other], {"x": (one,)})])
    assert type(merged) is Ends
    assert [part.rows() for part in merged.small] == [["a", "b", "c"]]
    assert {key: [part.rows() for part in parts] for key, parts in merged.large.items()} == {"x": [["c", "a", "b"]]}


@pytest.mark.parametrize("same", [None, 3, [], ("a", 1), {"a": None}])
def test_what_is_the_same_on_all_workers(same: object):
    assert merge([same, same, same]) == same


@pytest.mark.parametrize(("one", "other"), [(1, 2), ([1], [1, 2]), ({"a": 1}, {"b": 1}), (None, extracted("a"))])
def test_what_cannot_be_merged(one: object, other: object):
    with pytest.raises(GraphError, match=r"on another, which cannot be merged; return what `extract\(\)` gives"):
        merge([one, other])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_example_on_several_workers(threads: int):
    """Each worker has sources, operators bring records together, and what comes out anywhere is in the result."""

    def build(scope: Scope) -> tuple[Extracted[str], Extracted[int], int]:
        words = iterator_source(scope, [(4, [f"from {scope.worker.index}"]), (7, ["from all"])])
        return words.exchange_by(str).extract(), words.count().extract(), scope.worker.peers

    words, counts, peers = example(build, threads=threads)
    assert {time: sorted(rows) for time, rows in words.by_time().items()} == {
        4: [f"from {worker}" for worker in range(threads)],
        7: ["from all"] * threads,
    }
    assert counts.by_time() == {4: [threads], 7: [threads]}
    assert peers == threads
