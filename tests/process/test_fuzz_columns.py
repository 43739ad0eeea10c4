"""Mutated batches and chunks of columns: refused or taken, but no process ends by them."""

from __future__ import annotations

from tests.bench.programs.fuzz_columns import fuzz

FRAMES = 10_000
"""Some seconds; a million are run by hand: `python -m tests.bench.programs.fuzz_columns 1000000`."""


def test_mutated_frames_are_refused_or_taken_and_end_no_process() -> None:
    found = fuzz(0, FRAMES, seed=21, seconds_max=300)
    assert sum(found.values()) == FRAMES
    assert found["ProtocolError"] > FRAMES / 4
    assert found["accepted"] > FRAMES / 20
