"""Stores with as little memory as can be: tables of columns write out all that they may after every batch."""

from __future__ import annotations

from dataclasses import replace

from routing.store.budget import MEMORY_BYTES_MIN, Budget
from routing.store.database import Database
from routing.store.rocks import RocksMaker


class CrampedMaker(RocksMaker):
    """Makes stores on disk, and leaves no memory for tables."""

    def __init__(self) -> None:
        super().__init__(None, MEMORY_BYTES_MIN)

    def behind_table(self) -> tuple[Database, Budget]:
        database, budget = super().behind_table()
        return database, replace(budget, table_bytes=0)
