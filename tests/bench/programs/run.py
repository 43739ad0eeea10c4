"""Runs a program of this folder and reads what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 600


def run_program(program: str, *arguments: str) -> list[Any]:
    """What a program prints: a JSON value per line."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / program), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
