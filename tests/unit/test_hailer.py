"""The front door: what `hailer` offers, what it loads, and whose packages it finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hailer
import operators
import operators.columns
import operators.spark
from tests.processes import ROOT


def test_it_offers_what_the_packages_offer():
    fronts = operators, operators.columns, operators.spark
    offered = {name: getattr(front, name) for front in fronts for name in front.__all__}
    assert hailer.__all__ == sorted(offered)
    assert {name: getattr(hailer, name) for name in hailer.__all__} == offered
    assert set(hailer.__all__) <= set(dir(hailer))


def test_a_name_that_it_does_not_have():
    with pytest.raises(ImportError, match="cannot import name 'Flwo' from 'hailer'"):
        exec("from hailer import Flwo")


def test_what_needs_columns_or_spark_is_loaded_when_it_is_asked_for(tmp_path: Path):
    loaded = "sorted({'numba', 'pyspark', 'operators.columns', 'operators.spark'} & {*sys.modules})"
    program = f"import hailer, sys; print({loaded}); hailer.Columns; print({loaded}); hailer.register; print({loaded})"
    assert _run(tmp_path, program).splitlines() == [
        "[]",
        "['operators.columns']",
        "['operators.columns', 'operators.spark', 'pyspark']",
    ]


def test_packages_of_the_same_names_beside_the_program_are_not_loaded(tmp_path: Path):
    for name in hailer.PACKAGES:
        _package(tmp_path, name, "raise AssertionError(__file__)")
    program = "import hailer, operators.core, operators.spark, routing, framework; print(operators.__file__)"
    assert _run(tmp_path, program) == str(ROOT / "operators" / "__init__.py")


@pytest.mark.parametrize("wanted", ["import operators.mine", "from operators import mine"])
def test_a_package_that_ours_hides_is_named(tmp_path: Path, wanted: str):
    _package(tmp_path, "operators", "")
    (tmp_path / "operators" / "mine.py").touch()
    assert _run(tmp_path, f"from hailer import Job; {wanted}").splitlines()[-1] == (
        f"ImportError: Hailer's package 'operators', which has no 'mine', hides yours, {tmp_path}/operators; "
        "rename yours, or put it into a package of your own"
    )


@pytest.mark.parametrize("place", ["operators", "operators.py"])
def test_a_package_that_hides_ours_is_named(tmp_path: Path, place: str):
    if place == "operators":
        _package(tmp_path, place, "mine = 1")
    else:
        (tmp_path / place).write_text("mine = 1")
    assert _run(tmp_path, "from operators import mine; import hailer").splitlines()[-1] == (
        f"ImportError: Hailer's package 'operators' is hidden by yours, {tmp_path}/{place}; "
        "rename yours, or put it into a package of your own"
    )


def test_a_module_that_nobody_has(tmp_path: Path):
    said = _run(tmp_path, "import hailer, operators.mine").splitlines()[-1]
    assert said == "ModuleNotFoundError: No module named 'operators.mine'"


def test_what_is_sought_within_a_package_that_only_we_have_is_not_yours(tmp_path: Path):
    _package(tmp_path, "operators", "")
    said = _run(tmp_path, "import hailer; from operators.core import mine").splitlines()[-1]
    assert said.startswith("ImportError: cannot import name 'mine' from 'operators.core'")


def _package(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)


def _run(folder: Path, program: str) -> str:
    """What a program in this folder says; Hailer is last on its path, as an installation is."""
    script = folder / "script.py"
    script.write_text(program)
    command = [sys.executable, "-P", "-c", _LAST_ON_THE_PATH.format(folder=str(folder), home=str(ROOT))]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    return (ended.stdout + ended.stderr).strip()


_LAST_ON_THE_PATH = "import runpy, sys; sys.path[:] = [{folder!r}, *sys.path, {home!r}]; runpy.run_path('script.py')"
