"""Files of another user, for tests of what must not be trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file belong to another user: root can, everybody else becomes another one."""
    user = os.getuid()
    if user == 0:
        os.chown(path, 12_345, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
