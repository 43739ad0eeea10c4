"""What large jobs do, in small ones: tables of columns on disk after every batch, dictionaries of a few keys, and parts
of batches in several regions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from routing.columns import dictionary, partition
from routing.state.database import Database
from routing.state.rocks import RocksMaker
from routing.state.rocks_budget import MEMORY_BYTES_MIN, Budget


class CrampedMaker(RocksMaker):
    """Makes stores on disk, and leaves no memory for tables."""

    def __init__(self) -> None:
        super().__init__(None, MEMORY_BYTES_MIN)

    def behind_table(self) -> tuple[Database, Budget]:
        database, budget = super().behind_table()
        return database, replace(budget, table_bytes=0)


def small_dictionaries() -> AbstractContextManager[Any]:
    """Operators that are built meanwhile have keys in dictionaries even if few of a few rows recur."""
    return patch.multiple(dictionary, ROWS_MIN=1, SHARE_MAX=0.9)


def small_regions() -> AbstractContextManager[Any]:
    """Batches that are divided meanwhile have parts of several regions, even if each has one row."""
    return patch.object(partition, "REGION_ROWS_MIN", 1)
