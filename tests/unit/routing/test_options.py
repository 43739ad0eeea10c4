"""Options of stateful operators: a number or all of them, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from routing.errors import BinCountInvalid, BinOptionsInvalid
from routing.options import BinOptions
from routing.state.memory import MemoryStore


def test_a_number_means_so_many_bins_and_the_defaults():
    assert BinOptions.of(16) == BinOptions(bins=16)
    options = BinOptions(bins=4, chunk_bytes_max=1)
    assert BinOptions.of(options) is options
    assert BinOptions() == BinOptions(bins=256, store=MemoryStore, chunk_bytes_max=2**18, in_flight_bytes_max=2**22)


@pytest.mark.parametrize("bins", [0, 3, 2**17, True, 8.0])
def test_a_number_of_bins_that_cannot_be(bins: Any):
    with pytest.raises(BinCountInvalid, match=r"power of two from 1 to 65536"):
        BinOptions(bins)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"chunk_bytes_max": 0}, "chunk_bytes_max=0 cannot be: name a number of bytes, at least 1"),
        ({"in_flight_bytes_max": 1.5}, "in_flight_bytes_max=1.5 cannot be: name a number of bytes, at least 1"),
        ({"store": "rocks"}, r"store='rocks' makes no store; name `MemoryStore`, what `RocksStore.maker\(\)` returns"),
        ({"report": None}, "report=None cannot be called; name a function of one argument"),
    ],
)
def test_other_options_that_cannot_be(option: dict[str, Any], reason: str):
    with pytest.raises(BinOptionsInvalid, match=reason):
        BinOptions(**option)
