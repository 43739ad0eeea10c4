"""The secret's file: made once, private, and refused when it is not."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.errors import ConfigError
from framework.net.secret import default_secret_path, load_or_create_secret
from tests.unit.foreign import give_away


def test_the_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "hailer" / "secret"
    secret = load_or_create_secret(path)
    assert len(secret) == 32
    assert len(set(secret)) > 8
    assert load_or_create_secret(path) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["secret"]


def test_all_who_start_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    with ThreadPoolExecutor(16) as pool:
        secrets = set(pool.map(lambda _: load_or_create_secret(path), range(64)))
    assert len(secrets) == 1
    assert os.listdir(tmp_path) == ["secret"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_secret_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    load_or_create_secret(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        load_or_create_secret(path)


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="has 5 bytes, and at least 32"):
        load_or_create_secret(path)


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="HAILER_SECRET_FILE"):
        load_or_create_secret(tmp_path / "file" / "secret")


def test_where_the_secret_is() -> None:
    assert default_secret_path({"HAILER_SECRET_FILE": "/a/b"}) == Path("/a/b")
    assert default_secret_path({"XDG_STATE_HOME": "/state"}) == Path("/state/hailer/secret")
    assert default_secret_path({}) == Path.home() / ".local/state/hailer/secret"


def test_a_secret_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    load_or_create_secret(path)
    give_away(path, monkeypatch)
    with pytest.raises(ConfigError, match=r"belongs to user \d+, who knows it; delete it"):
        load_or_create_secret(path)


def test_without_a_home_directory_a_file_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert default_secret_path({"HAILER_SECRET_FILE": "/a/b"}) == Path("/a/b")
    with pytest.raises(ConfigError, match="set HAILER_SECRET_FILE"):
        default_secret_path({})
