"""A real file system of a size that a test can fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PIECE = b"x" * 4096


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes, mounted at `directory`."""
    directory.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(directory)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """A file that takes all that is free."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(PIECE):
                pass
        except OSError:
            return filler
    raise AssertionError("it has no end")
