"""Two real processes that exchange large batches: they see each other's memory, and every row arrives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import pyarrow as pa
from operators import Probe, execute_from_args
from operators.columns import ColumnInput

ROWS, EPOCHS = 100_000, 40

def main(worker):
    numbers, probe, seen = ColumnInput({"n": int}, "numbers"), Probe(), []
    with worker.dataflow() as scope:
        spread = numbers.stream(scope).exchange_by("n")
        spread.inspect(lambda batch: seen.append(int(batch["n"].to_numpy().sum()))).probe(probe)
    for epoch in range(EPOCHS):
        numbers.send(pa.record_batch({"n": np.arange(ROWS) + epoch * ROWS}))
        numbers.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(epoch - 3))
    numbers.close()
    while worker.step_or_park():
        pass
    shared = "hailer-link" in open("/proc/self/maps").read()
    print(worker.index, sum(seen), shared, flush=True)

execute_from_args(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has anonymous files")
def test_large_batches_go_from_process_to_process_through_memory(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(program), "-n2"], capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stderr
    told = [line.split() for line in run.stdout.splitlines()]
    total = 40 * 100_000
    assert sum(int(one) for _, one, _ in told) == 2 * (total * (total - 1) // 2)
    assert [shared for *_, shared in told] == ["True", "True"]
