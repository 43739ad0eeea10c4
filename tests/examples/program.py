"""The examples as their users run them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.processes import ROOT, Command

EXAMPLES = ROOT / "examples"


def example(name: str, *arguments: str | Path) -> Command:
    """The command that runs an example."""
    return sys.executable, EXAMPLES / name, *arguments
