"""A job with its ends: what is refused before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators import Job
from operators.control.job_program import JobProgram
from operators.errors import ConfigError


def test_two_outputs_cannot_go_to_one_directory(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=r"outputs 'a' and 'b' both go to .*; give each a directory of its own"):
        JobProgram(Job("counts"), outputs={"a": str(tmp_path / "out"), "b": str(tmp_path / "link" / "out")})
    JobProgram(Job("counts"), outputs={"a": "-", "b": "-"})
