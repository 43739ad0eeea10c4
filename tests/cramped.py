"""The thresholds of large jobs, lowered for small ones: tables that spill after every batch, dictionaries of a few
keys, and batches whose parts have several regions.

Dictionaries and regions are patched, not configured: their thresholds are read deep in F's pacts, and to pass them
there would put them in the signature of every operator on columns.
"""

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
    """Makes stores on disk, with no budget for tables."""

    def __init__(self) -> None:
        super().__init__(None, MEMORY_BYTES_MIN)

    def behind_table(self) -> tuple[Database, Budget]:
        database, budget = super().behind_table()
        return database, replace(budget, table_bytes=0)


def small_dictionaries() -> AbstractContextManager[Any]:
    """Have operators that are built meanwhile dictionary-encode even small batches with many keys."""
    return patch.multiple(dictionary, ROWS_MIN=1, SHARE_MAX=0.9)


def small_regions() -> AbstractContextManager[Any]:
    """Have batches that are divided meanwhile split into several regions, even of one row each."""
    return patch.object(partition, "REGION_ROWS_MIN", 1)
