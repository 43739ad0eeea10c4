"""What other users can change is not trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.ownership import exposed_parent, exposure, make_private, read_private
from tests.unit.foreign import give_away


def test_what_others_can_change_is_exposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, folder, sticky, link = (tmp_path / name for name in ("file", "folder", "sticky", "link"))
    file.touch(0o644)
    folder.mkdir(0o755)
    sticky.mkdir()
    sticky.chmod(0o1777)
    link.symlink_to(file)
    assert [exposure(path) for path in (file, folder, sticky, link)] == [None, None, None, "it is a symbolic link"]
    file.chmod(0o664)
    folder.chmod(0o777)
    assert exposure(file) == "others can write to it (mode 664)"
    assert exposure(folder) == "others can write to it (mode 777)"
    give_away(sticky, monkeypatch)
    assert str(exposure(sticky)).startswith("it belongs to user ")


def test_one_directory_on_the_way_is_enough(tmp_path: Path):
    deep = tmp_path / "a" / "b" / "c"
    make_private(deep)
    assert exposed_parent(deep) is None
    (tmp_path / "a").chmod(0o775)
    assert exposed_parent(deep) == tmp_path / "a"


def test_directories_are_private_whatever_the_umask_is(tmp_path: Path):
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b")
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private(tmp_path / "file")


def test_only_what_is_private_is_read(tmp_path: Path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("tea", encoding="utf-8")
    path.chmod(0o600)
    link.symlink_to(path)
    assert read_private(path) == "tea"
    with pytest.raises(OSError, match="symbolic links"):
        read_private(link)
    path.chmod(0o606)
    with pytest.raises(PermissionError, match="mode 606"):
        read_private(path)
