"""The decorators of kernels, which numba compiles and caches, and the names of what it has compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, TypeAlias

import numba

from routing.columns.cache_directory import cache_directory

_kernels: list[Any] = []
"""All that were decorated."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` when it is first called, and cache it; it runs without the GIL."""
    with caching():
        compiled = numba.njit(cache=True, nogil=True, error_model="python")(function)
    _kernels.append(compiled)
    return compiled


def inlined(function: Callable[..., Any]) -> Any:
    """Inline `function` into the kernels that call it."""
    return numba.njit(nogil=True, error_model="python", forceinline=True)(function)


compiling = RLock()
"""Held while source is rewritten and compiled: neither Python's parser nor numba's configuration is thread-safe, and
the workers of a process build their dataflows concurrently."""


@contextmanager
def caching() -> Iterator[None]:
    """Point numba's cache at our directory, for what is decorated meanwhile."""
    config: Any = numba.config
    with compiling:
        before = config.CACHE_DIR
        config.CACHE_DIR = str(cache_directory())
        try:
            yield
        finally:
            config.CACHE_DIR = before


# What is loaded, by name

CompiledName: TypeAlias = tuple[str, str, str]
"""A kernel's module and name, and a digest of the types that it was compiled for."""


def loaded_kernels() -> list[CompiledName]:
    """What has been compiled in this process, or loaded from the cache."""
    return sorted(
        (kernel.__module__, kernel.__qualname__, _digest(types)) for kernel in _kernels for types in kernel.signatures
    )


def load_kernels_named(names: Iterable[CompiledName]) -> None:
    """Load from the cache what is there under these names; their modules must have been imported."""
    wanted = set(names)
    with compiling:
        for kernel in list(_kernels):
            name = kernel.__module__, kernel.__qualname__
            if any(name == (module, function) for module, function, _ in wanted):
                for types in _cached(kernel):
                    if (*name, _digest(types)) in wanted:
                        kernel.compile(types)


def _cached(kernel: Any) -> Iterator[tuple[Any, ...]]:
    """The types that there is code in the cache for, made for this machine. Numba has no public way to list them."""
    cache, codegen = kernel._cache, kernel.targetctx.codegen()
    for key in cache._cache_file._load_index():
        types, *_ = key
        if key == cache._index_key(types, codegen):
            yield types


def _digest(types: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(types).encode()).hexdigest()[:16]
