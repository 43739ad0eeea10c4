"""Spark for tests: quiet, on this machine, with slots for a job's processes beside its own tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from operators.spark import SparkOptions, open_session

SMALL = (("spark.sql.shuffle.partitions", "2"), ("spark.default.parallelism", "2"))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session whose tasks may fail twice."""
    with open_session("tests", SparkOptions("local[6,3]", SMALL)) as session:
        yield session


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
