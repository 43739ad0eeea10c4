"""Memory that a job's process has freed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from framework.launch.execute import example
from framework.launch.memory_tuning import keep_freed_memory, sweep_before_joining
from operators import to_stream

ROUNDS = 20

PROGRAM = f"""
import resource
from framework.launch.memory_tuning import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

assert keep_freed_memory()
blocks = [bytes([1]) * 4_000_000 for _ in range(4)]
before = faults()
for _ in range({ROUNDS}):
    blocks.clear()
    blocks += [bytes([1]) * 4_000_000 for _ in range(4)]
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can be told")
def test_freed_memory_is_used_again_instead_of_asked_for_anew() -> None:
    """In a process of its own, since it cannot be undone. All anew would be thousands of pages in each round."""
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 100 * ROUNDS


def test_a_c_library_that_cannot_be_told_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert not keep_freed_memory()


FROZEN = """
import gc
from operators import Probe, execute_from_args, to_stream

def main(worker):
    probe = Probe()
    with worker.dataflow() as scope:
        to_stream(scope, [1]).probe(probe)
    before = gc.get_freeze_count()
    worker.step_while(lambda: probe.less_than(1))
    print(before, gc.get_freeze_count() > 1000)

execute_from_args(main)
"""


@pytest.mark.parametrize("flags", [[], ["-n2"]])
def test_what_is_loaded_is_not_looked_through_once_a_worker_steps(flags: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FROZEN, encoding="utf-8")
    told = subprocess.run([sys.executable, str(program), *flags], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["0 True"] * (2 if flags else 1)


def test_who_is_to_join_has_collected_its_garbage_before_and_leaves_the_rest_alone() -> None:
    class Ring:
        def __init__(self) -> None:
            self.ring = self

    gone = weakref.ref(Ring())
    before = gc.get_freeze_count()
    try:
        sweep_before_joining()
        assert gone() is None
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


def test_a_program_that_runs_a_dataflow_beside_other_things_keeps_its_garbage_collector_as_it_is() -> None:
    before = gc.get_freeze_count()
    assert example(lambda scope: to_stream(scope, [1]).extract()).rows() == [1]
    assert gc.get_freeze_count() == before
