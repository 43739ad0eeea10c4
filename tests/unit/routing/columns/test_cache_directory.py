"""The directory of compiled code: nobody else can put code into it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.errors import ConfigError
from routing.columns.cache_directory import cache_directory, existing_cache_directory
from tests.unit.foreign import give_away


@pytest.fixture(autouse=True)
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    chosen = tmp_path / "shared" / "cache"
    monkeypatch.setenv("HAILER_CACHE_DIR", str(chosen))
    cache_directory.cache_clear()
    yield chosen
    cache_directory.cache_clear()


def test_a_private_directory_is_used(chosen: Path):
    assert cache_directory().parent == chosen
    assert existing_cache_directory() == cache_directory()
    assert chosen.parent.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_reached_by_a_link_is_used_without_it(chosen: Path, tmp_path: Path):
    (tmp_path / "real").mkdir(0o700)
    chosen.parent.symlink_to(tmp_path / "real")
    assert cache_directory().parent == tmp_path / "real" / "cache"


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_nothing_is_loaded_from_a_directory_on_whose_way_others_can_write(chosen: Path, depth: int, mode: int):
    leaf = cache_directory()
    cache_directory.cache_clear()
    [leaf, *leaf.parents][depth].chmod(mode)
    assert existing_cache_directory() is None
    assert not cache_directory().is_relative_to(chosen)


def test_nor_from_one_of_another_user(chosen: Path, monkeypatch: pytest.MonkeyPatch):
    cache_directory()
    give_away(chosen.parent, monkeypatch)
    assert existing_cache_directory() is None


def test_in_a_sticky_directory_one_of_ones_own_is_used(chosen: Path):
    chosen.parent.mkdir()
    chosen.parent.chmod(0o1777)
    assert cache_directory().parent == chosen


def test_the_temporary_directory_goes_with_its_process(chosen: Path, tmp_path: Path):
    chosen.mkdir(parents=True)
    chosen.chmod(0o777)
    program = (
        "import os; from routing.columns.cache_directory import cache_directory as of; made = of();"
        "print(made, flush=True);"
        "pid = os.fork(); pid or exit(); os.waitpid(pid, 0); assert made.exists()"
    )
    environ = {"HAILER_CACHE_DIR": str(chosen), "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert Path(ran.stdout.strip()).parent == tmp_path
    assert not Path(ran.stdout.strip()).exists()


def test_without_a_home_directory_another_one_must_be_named(monkeypatch: pytest.MonkeyPatch, chosen: Path):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert cache_directory().parent == chosen
    cache_directory.cache_clear()
    monkeypatch.delenv("HAILER_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(ConfigError, match="set HAILER_CACHE_DIR"):
        cache_directory()
