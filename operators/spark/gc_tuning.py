"""Spark's Python processes look for garbage after every task: all objects that there are, most of which are modules."""

from __future__ import annotations

import gc
from functools import cache


@cache
def keep_what_is_loaded() -> None:
    """Have what is loaded by now not looked through again, in a process of Spark's that serves many tasks.

    That takes 20 ms each time otherwise: several times per batch, and more than most batches have to do there.
    """
    gc.collect()
    gc.freeze()
