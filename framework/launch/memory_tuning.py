"""How a process of a job treats memory: it keeps what it has freed, and looks for garbage among what is new."""

from __future__ import annotations

import ctypes
import gc

from framework.worker.worker import Worker

KEPT_BYTES = 64 * 1024 * 1024
MAPPED_BYTES = 32 * 1024 * 1024

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""As `malloc.h` of glibc numbers them."""


def keep_freed_memory() -> bool:
    """Have the C library give memory back only if more than `KEPT_BYTES` are free; whether it knows how to.

    A batch of columns is a megabyte or several, and by glibc's own rules all of it goes back to the system with each
    batch, to be asked for and zeroed again with the next. That was a fifth of the CPU time of counting words.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)) and bool(mallopt(_TRIM_THRESHOLD, KEPT_BYTES))


def sweep_before_joining() -> None:
    """Collect garbage, and have Python look for it no more among what is loaded, while the job does not wait for it."""
    gc.collect()
    gc.freeze()


def leave_alone_what_is_loaded(worker: Worker) -> None:
    """Have Python not look for garbage among modules and dataflows, from this worker's first step on.

    Whenever it goes through everything, that is a stall: of 60 ms, once a compiler is among it.
    """
    worker.after(0.0, gc.freeze)
