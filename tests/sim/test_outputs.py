"""Outputs in files show whole epochs, however workers join and leave. A failure names its seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.job import part_writer
from tests.sim.output_run import run_output_seed

SEEDS = range(100, 140)


def test_files_show_whole_epochs_while_workers_join_and_leave(tmp_path: Path, sim_seed: int | None, sim_trace: int):
    if sim_seed is not None:
        run_output_seed(sim_seed, tmp_path, trace_moves=sim_trace)
        return
    outcomes = [run_output_seed(seed, tmp_path / str(seed)) for seed in SEEDS]
    assert sum(outcome.joined for outcome, _ in outcomes) > len(SEEDS) // 2, "hardly anybody joined"
    assert sum(outcome.left for outcome, _ in outcomes) > len(SEEDS) // 4, "hardly anybody left"
    assert sum(checked for _, checked in outcomes) > 2 * len(SEEDS), "hardly any epoch was complete before the end"


def test_they_do_so_when_rows_cannot_wait_until_the_cuts_are_known(
    tmp_path: Path, sim_seed: int | None, sim_trace: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(part_writer, "HELD_BYTES_MAX", 40)  # a record or two
    for seed in range(130, 140) if sim_seed is None else [sim_seed]:
        run_output_seed(seed, tmp_path / str(seed), trace_moves=sim_trace)
