"""A job with its ends: what is refused before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators import Job
from operators.control.job_program import JobProgram
from operators.errors import ConfigError


@pytest.mark.parametrize("other", ["link/out", "link/out/within", "out/within"])
def test_two_outputs_cannot_go_to_one_directory_or_one_within_the_other(tmp_path: Path, other: str):
    (tmp_path / "link").symlink_to(tmp_path)
    outputs = {"a": str(tmp_path / "out"), "b": str(tmp_path / other)}
    for given in (outputs, dict(reversed(outputs.items()))):
        with pytest.raises(ConfigError, match=r"both go to .*out; give each a directory that is in no other's"):
            JobProgram(Job("counts"), outputs=given)


def test_outputs_beside_each_other(tmp_path: Path):
    JobProgram(Job("counts"), outputs={"a": str(tmp_path / "out"), "b": str(tmp_path / "out2")})
    JobProgram(Job("counts"), outputs={"a": "-", "b": "-"})
