"""Spark for tests: quiet, on this machine, with slots for a job's processes beside its own tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.wire import extensions
from operators.spark import SparkOptions, open_session
from operators.spark.settings import PARALLELISM


@contextmanager
def small_session(master: str) -> Iterator[SparkSession]:
    """A session of few partitions. It is told once it is there: what it is opened with stays in the process, for those
    of other tests."""
    with open_session("tests", SparkOptions(master)) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set(PARALLELISM, "2")
        yield session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session whose tasks may fail twice."""
    with small_session("local[6,3]") as session:
        yield session


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No types but those that a test registers itself: all that are registered travel to executors."""
    own = {extension.cls for extension in extensions.registered().values()}
    monkeypatch.setattr(extensions, "_by_name", {})
    kept = {cls: extension for cls, extension in extensions._by_type.items() if cls not in own}
    monkeypatch.setattr(extensions, "_by_type", kept)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; what loading a job adds to the path is taken away again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path
