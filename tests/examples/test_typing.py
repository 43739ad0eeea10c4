"""What a user's type checker sees of an installed Hailer, anywhere outside of the clone."""

from __future__ import annotations

import os
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


def test_files_of_the_tutorial_are_typed_and_mistakes_beside_them_are_found(tmp_path: Path):
    titled = [block for block in blocks(ROOT / "docs" / "tutorial.md") if block.title is not None]
    for block in titled:
        (tmp_path / str(block.title)).write_text(block.body)
    (tmp_path / "wrong.py").write_text(WRONG)
    assert _mypy(tmp_path) == [
        'wrong.py:3: error: Argument 1 to "Job" has incompatible type "int"; expected "str"  [arg-type]',
        'wrong.py:5: error: "Stream[Any]" has no attribute "mapp"; maybe "map"?  [attr-defined]',
        'wrong.py:6: error: "type[Columns]" has no attribute "nothing"  [attr-defined]',
        'wrong.py:7: error: "type[JobOnSpark]" has no attribute "nothing"  [attr-defined]',
        f"Found 4 errors in 1 file (checked {len(titled) + 1} source files)",
    ]


def _mypy(folder: Path) -> list[str]:
    """What mypy says of the files there. It finds Hailer by its installation alone."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-color-output", f"--cache-dir={CACHE}", "."]
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True).stdout.splitlines()
