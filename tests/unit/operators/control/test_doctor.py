"""What `hailer doctor` says of files that others can change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.net.certificate import tls_context
from operators.admin.run_directory import FOLDER, claim
from operators.control.doctor import check_cache, check_directory, check_encryption, check_secret
from routing.columns.cache_directory import cache_directory


@pytest.fixture(autouse=True)
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HAILER_CACHE_DIR", str(tmp_path / "cache"))
    cache_directory.cache_clear()
    yield tmp_path / "cache"
    cache_directory.cache_clear()


def test_a_cache_that_others_can_write_to_is_noted(chosen: Path):
    assert check_cache().mark == "ok"
    cache_directory.cache_clear()
    chosen.chmod(0o775)
    found = check_cache()
    assert (found.mark, found.remedy) == ("note", "take that from them (`chmod go-w`), or set HAILER_CACHE_DIR")


def test_a_run_directory_that_others_can_write_to_is_bad(tmp_path: Path):
    claim(tmp_path, "counts")
    assert check_directory(tmp_path).mark == "ok"
    (tmp_path / FOLDER).chmod(0o777)
    assert str(check_directory(tmp_path)).startswith(f"bad   {tmp_path / FOLDER} cannot be trusted: others can write")


def test_a_machine_that_cannot_encrypt_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch):
    assert check_encryption().mark == "ok"
    tls_context.cache_clear()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    found = check_encryption()
    assert found.mark == "note"
    assert "install it, or give --no-tls" in found.what


def test_a_user_without_a_home_directory_is_told(monkeypatch: pytest.MonkeyPatch):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    for variable in ("HAILER_CACHE_DIR", "HAILER_SECRET_FILE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert [(found.mark, found.what.split("; ")[1][:10]) for found in (check_secret(), check_cache())] == [
        ("bad", "set HAILER"),
        ("bad", "set HAILER"),
    ]
