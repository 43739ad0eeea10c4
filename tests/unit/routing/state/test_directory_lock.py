"""Which directories a store may lock; that each has its own is in `test_store`."""

from __future__ import annotations

from pathlib import Path

import pytest

from routing.state.directory_lock import lock_directory, lock_fresh_directory
from routing.state.errors import StoreUnusable
from tests.unit.foreign import give_away


@pytest.fixture(params=["a symbolic link", "a hard link"])
def planted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder whose `owner` and `.lock` lead to a file that matters."""
    (tmp_path / "matters").write_text("much", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir(0o700)
    for name in ("owner", ".lock"):
        if request.param == "a hard link":
            (folder / name).hardlink_to(tmp_path / "matters")
        else:
            (folder / name).symlink_to(tmp_path / "matters")
    return folder


def test_a_lock_does_not_follow_links_and_truncates_nothing(planted: Path):
    with pytest.raises(StoreUnusable, match="'owner' in it is no lock file, but a link"):
        lock_directory(planted)
    with pytest.raises(StoreUnusable, match=r"'\.lock' in it is no lock file, but a link"):
        lock_fresh_directory(planted)
    assert (planted.parent / "matters").read_text(encoding="utf-8") == "much"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_that_others_can_write_to_keeps_no_state(tmp_path: Path, mode: int):
    tmp_path.chmod(mode)
    with pytest.raises(StoreUnusable, match=f"mode {mode:o}.*chmod go-w {tmp_path}"):
        lock_directory(tmp_path)
    tmp_path.chmod(0o755)
    lock_directory(tmp_path).release()


def test_nor_does_one_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    give_away(tmp_path, monkeypatch)
    with pytest.raises(StoreUnusable, match="it belongs to user"):
        lock_directory(tmp_path)


def test_what_another_user_has_in_a_shared_directory_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(self: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(self))

    (tmp_path / "store-theirs").mkdir()
    monkeypatch.setattr(Path, "read_text", denied)
    lock_fresh_directory(tmp_path).release()
    assert (tmp_path / "store-theirs").exists()
