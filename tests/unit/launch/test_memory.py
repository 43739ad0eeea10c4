"""Memory that a job's process has freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from framework.launch.memory import keep_freed_memory

ROUNDS = 20

PROGRAM = f"""
import resource
from framework.launch.memory import keep_freed_memory

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
