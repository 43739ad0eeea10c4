"""What a user's type checker sees of an installed Hailer, anywhere outside of the clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.examples.pages import blocks
from tests.processes import ROOT

CACHE = ROOT / ".mypy_cache" / "outside"
"""A cache of its own: mypy takes five seconds without one, and the clone's holds other paths."""

WRONG = """
from hailer import Columns, Flow, Job, JobOnSpark
job = Job(1)
def build(flow: Flow) -> None:
    flow.input("lines").mapp(str.split)
Columns.nothing
JobOnSpark.nothing
"""

FOLDS = """
from hailer import Stream
def letters(word: str, n: int, total: int) -> tuple[int, str]:
    return total + n, word
def build(pairs: Stream[tuple[str, int]], sales: Stream[tuple[str, float, int]]) -> None:
    pairs.state_machine(letters, initial=0)
    reveal_type(pairs.state_machine(lambda word, n, total: (total + n, [(word, total)]), initial=0))
    reveal_type(sales.state_machine(lambda what, sale, n: (n + 1, [sale[1]]), initial=0, key=lambda sale: sale[0]))
    reveal_type(sales.aggregate(lambda what, sale, n: n + sale[1], initial=0.5, key=lambda sale: sale[0]))
"""


def test_files_of_the_tutorial_are_typed_and_mistakes_beside_them_are_found(tmp_path: Path):
    titled = [block for block in blocks(ROOT / "docs" / "tutorial.md") if block.title is not None]
    for block in titled:
        (tmp_path / str(block.title)).write_text(block.body)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "folds.py").write_text(FOLDS)
    assert sorted(re.sub(r"; expected \"Callable.*|operators\.stream\.", "", line) for line in _mypy(tmp_path)) == [
        f"Found 5 errors in 2 files (checked {len(titled) + 2} source files)",
        'folds.py:6: error: Argument 1 has incompatible type "Callable[[str, int, int], tuple[int, str]]"',
        'folds.py:7: note: Revealed type is "Stream[tuple[str, int]]"',
        'folds.py:8: note: Revealed type is "Stream[float]"',
        'folds.py:9: note: Revealed type is "Stream[tuple[str, float]]"',
        'wrong.py:3: error: Argument 1 to "Job" has incompatible type "int"; expected "str"  [arg-type]',
        'wrong.py:5: error: "Stream[Any]" has no attribute "mapp"; maybe "map"?  [attr-defined]',
        'wrong.py:6: error: "type[Columns]" has no attribute "nothing"  [attr-defined]',
        'wrong.py:7: error: "type[JobOnSpark]" has no attribute "nothing"  [attr-defined]',
    ]


def _mypy(folder: Path) -> list[str]:
    """What mypy says of the files there. It finds Hailer by its installation alone."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", f"--cache-dir={CACHE}", "."]
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True).stdout.splitlines()
