"""A job for tests on Spark, and its input: it counts words, and takes its time until there is a file `hurry`."""

from __future__ import annotations

from pathlib import Path

from tests.process.test_scale import COUNTS


def write_counting(folder: Path, *, lines: int) -> None:
    """Put the job and its input into a folder; executors have other working directories, so it names its files."""
    (folder / "counts.py").write_text(COUNTS.replace('Path("', f'Path("{folder}/'))
    text = [" ".join(f"w{(line * word) % 97}" for word in range(1, 4)) for line in range(lines)]
    (folder / "book.txt").write_text("\n".join(text) + "\n")
