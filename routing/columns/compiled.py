"""Python that is compiled: one decorator, and one directory for what the compiler made.

The compiler's own cache looks at a function's file only, and not at those of the functions it calls. So everything is
cached in a directory that is named after all of this package's source: another version compiles anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numba

CACHE_VARIABLE = "HAILER_CACHE_DIR"


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` when it is first called; it runs without the interpreter's lock."""
    with caching():
        return numba.njit(cache=True, nogil=True, error_model="python")(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile `function` into the kernels that call it."""
    return numba.njit(nogil=True, error_model="python", forceinline=True)(function)


compiling = RLock()
"""Held while source is rewritten and compiled: neither Python's parser nor the compiler's settings are for two threads,
and the workers of a process build their dataflows at the same time."""


@contextmanager
def caching() -> Iterator[None]:
    """Have what is decorated meanwhile cached in our own directory."""
    config: Any = numba.config
    with compiling:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_directory())
        try:
            yield
        finally:
            config.CACHE_DIR = before


@cache
def cache_directory() -> Path:
    """Where compiled code is kept, for this version of this package; nobody else can write there."""
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    directory = (Path(chosen) if chosen else base / "hailer") / _version()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = directory.stat()
        if owner.st_uid == os.getuid() and not owner.st_mode & 0o022 and os.access(directory, os.W_OK):
            return directory
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="hailer-"))


def _version() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
