"""States that exceed a frame move: per key, in memory and on disk, per bin, and what was put off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framework.errors import RecordTooLarge
from framework.membership.members import WorkerId
from framework.wire.framing import FRAME_BYTES_MAX
from framework.wire.messages import Data, encode_data
from operators import BinOptions, RocksStore, Stream, iterator_source
from routing.bins import BinId
from routing.commands import Control, Move
from tests.unit.operators.cluster import merged, run

LARGE = "x" * (FRAME_BYTES_MAX + 1)


def grow(key: str, n: int, state: tuple[int, str]) -> tuple[Any, list[Any]]:
    total, text = state
    return (total + n, text or LARGE), [(key, total + n, text in ("", LARGE))]


def remember(time: int, rows: list[Any], bin: Any) -> list[Any]:
    for _, n in rows:
        if n == LARGE:
            return [("put off", time, True)]
        bin.state[0] += n
        bin.state[1] = bin.state[1] or LARGE
        if time == 0:
            bin.put_off(3, ("k", LARGE))
    return [("k", bin.state[0], bin.state[1] == LARGE)]


OPERATORS: dict[str, Callable[[Stream[Any], dict[str, Any], Path], Stream[Any]]] = {
    "memory": lambda pairs, place, _: pairs.stateful_state_machine(grow, initial=(0, ""), bins=1, **place),
    "disk": lambda pairs, place, path: pairs.stateful_state_machine(
        grow, initial=(0, ""), bins=BinOptions(1, store=RocksStore.maker(path)), **place
    ),
    "bin": lambda pairs, place, _: pairs.stateful_unary(
        remember, key=lambda pair: pair[0], initial=lambda: [0, ""], bins=1, **place
    ),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_state_that_exceeds_a_frame_moves_there_and_back(operator: str, tmp_path: Path):
    def build(scope: Any) -> Any:
        first = scope.worker.index == 0
        moves = [(epoch, [Control(epoch - 1, 1, Move(BinId(0), WorkerId(epoch % 2)))]) for epoch in (1, 2)]
        control = iterator_source(scope, moves if first else []).broadcast()
        pairs = iterator_source(scope, [(epoch, [("k", 1)]) for epoch in range(3)] if first else [])
        return OPERATORS[operator](pairs, {"control": control}, tmp_path).extract()

    counted: dict[int, Any] = {epoch: [("k", epoch + 1, True)] for epoch in range(3)}
    if operator == "bin":
        counted[3] = [("put off", 3, True)]
    assert merged(run(build, seed=1, workers=2)) == counted


def test_a_record_that_exceeds_a_frame_names_its_operator():
    with pytest.raises(RecordTooLarge, match=r"^operator 'load' sent a record of 16\d{6} bytes to another worker"):
        encode_data(Data(1, 0, [LARGE]), "operator 'load'")
