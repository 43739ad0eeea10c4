"""Runs a program of this folder and reads what it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 600
ROOT = Path(__file__).parents[3]


def run_program(program: str, *arguments: str) -> list[Any]:
    """What a program prints: a JSON value per line."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / program), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def count_instructions(program: str, *arguments: str) -> int:
    """How many instructions a program executes, as valgrind counts them: the same on a busy machine."""
    command = [sys.executable, str(Path(__file__).parent / program), *arguments]
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    collected = re.search(r"Collected : (\d+)", done.stderr)
    assert done.returncode == 0, done.stderr
    assert collected is not None, done.stderr
    return int(collected[1])
