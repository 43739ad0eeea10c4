"""What executors are sent, and what is said of modules that they lack, without Spark."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from sysconfig import get_path

import pytest

from operators.spark.launch.cluster import shippable, source_archive, what_failed

INSTALL = (
    "install it for its Python, name another with PYSPARK_PYTHON, or send an environment that has it with "
    "spark.archives, as venv-pack makes it"
)
OURS = "Hailer needs cryptography, msgpack, numba, numpy, pyarrow, rocksdict and xxhash there: " + INSTALL.replace(
    "it ", "them "
)


def test_what_cannot_leave_the_driver_is_left_out():
    assert shippable({"a": (1, int), "b": (2, threading.Lock())}) == {"a": (1, int)}


def test_what_is_shipped_runs_without_an_installation(tmp_path: Path):
    """`-S` leaves out the editable installation; what else is installed comes behind the archive."""
    archive = tmp_path / "hailer.zip"
    archive.write_bytes(source_archive())
    program = (
        f"import sys; sys.path[1:1] = [{str(archive)!r}]; sys.path += [{get_path('purelib')!r}]\n"
        "from framework.launch import execute\n"
        "from routing import placement\n"
        "from operators import columns\n"
        "from operators.spark.launch import task\n"
        "print(*(module.__file__ for module in (execute, placement, columns, task)), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True
    )
    names = (
        "framework/launch/execute.py",
        "routing/placement.py",
        "operators/columns/__init__.py",
        "operators/spark/launch/task.py",
    )
    assert done.stdout.splitlines() == [str(archive / name) for name in names]


def test_the_archive_of_the_same_source_is_the_same():
    assert source_archive() == source_archive()


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("numba", OURS),
        ("numpy", OURS),
        ("nowhere", "ship it, with --py-files nowhere.py or `addPyFile`"),
        ("own_file", "ship it, with --py-files own_file.py or `addPyFile`"),
        ("own_package", "ship it, with --py-files own_package.zip or `addPyFile`"),
        ("own_native", INSTALL),
        ("own_extension", INSTALL),
    ],
)
def test_a_module_that_an_executor_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, remedy: str):
    """Only what is pure Python can be shipped as a file."""
    (tmp_path / "own_file.py").touch()
    (tmp_path / "own_extension.abi3.so").touch()
    for package, file in (("own_package", "part.py"), ("own_native", "part.abi3.so")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    error = Exception(f"Traceback …\nModuleNotFoundError: No module named '{module}'\n\tat org.apache.spark…")
    assert what_failed(error, "executor 1 on h") == f"executor 1 on h has no module {module!r}; {remedy}"
