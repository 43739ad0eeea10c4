"""Generated modules: what is executed is what was generated, whatever lies in the cache."""

from __future__ import annotations

import py_compile
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.columns import module_cache
from operators.columns.module_cache import load, load_named
from routing.columns.cache_directory import cache_directory

EVIL = "import sys\nsys.evil = True\n"


@pytest.fixture(autouse=True)
def innocent() -> Iterator[None]:
    yield
    vars(sys).pop("evil", None)


@pytest.fixture
def text() -> str:
    return f"NUMBER = {secrets.randbits(64)}\n"


def path_of(text: str) -> Path:
    load(text)
    [name] = [name for name in module_cache.loaded() if (cache_directory() / f"{name}.py").read_text() == text]
    module_cache._loaded.pop(name)
    return cache_directory() / f"{name}.py"


def test_a_file_with_another_text_is_not_executed(text: str):
    path = path_of(text)
    path.write_text(EVIL)
    assert f"NUMBER = {load(text).NUMBER}\n" == text
    assert not hasattr(sys, "evil")
    assert path.read_text() == text, "numba's cache goes by the file"


def test_nor_is_it_if_it_is_named(text: str):
    path = path_of(text)
    path.write_text(EVIL)
    load_named([path.stem], [])
    assert path.stem not in module_cache.loaded()
    assert not hasattr(sys, "evil")
    path.write_text(text)
    load_named([path.stem], [])
    assert path.stem in module_cache.loaded()


def test_nor_is_bytecode_beside_it(text: str):
    path = path_of(text)
    path.write_text(EVIL)
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text(text)
    load_named([path.stem], [])
    assert path.stem in module_cache.loaded()
    assert not hasattr(sys, "evil")
