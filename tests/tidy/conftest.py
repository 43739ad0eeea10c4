"""A small clean tree, for each check to be shown a violation of its rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy.source import Source

CLEAN = {
    "pyproject.toml": '[project.scripts]\nhailer = "operators.control.cli:main"\n',
    "hailer.py": "import operators.columns\nfrom operators import delay\n",
    "framework/__init__.py": '"""Front."""\nfrom framework.worker.worker import step\n__all__ = ["step"]\n',
    "framework/worker/__init__.py": "",
    "framework/worker/worker.py": (
        "import socket\nfrom framework.progress import order\nfrom framework.wire import codec\n"
    ),
    "framework/progress/__init__.py": "",
    "framework/progress/order.py": "from bisect import insort\n",
    "framework/wire/__init__.py": "",
    "framework/wire/codec.py": "import msgpack\nfrom uuid import UUID\n",
    "framework/simulation/__init__.py": "",
    "framework/simulation/cluster.py": "import random\n",
    "routing/__init__.py": "",
    "routing/options.py": "import time\nimport framework\n",
    "operators/__init__.py": (
        'from operators.core.delay import delay\nfrom operators.stream import Stream\n__all__ = ["Stream", "delay"]\n'
    ),
    "operators/stream.py": (
        "import routing.options\nfrom operators.core.delay import delay\n"
        'class Stream:\n    """Records."""\n    delay = delay\n    _outlet = None\n'
    ),
    "operators/core/__init__.py": "",
    "operators/core/delay.py": (
        'from operators import stream\ndef delay(stream, by):\n    """Move records to a later time."""\n'
    ),
    "operators/columns/__init__.py": "from operators.columns.stream import Columns\n__all__ = []\n",
    "operators/columns/stream.py": 'import operators.stream\nclass Columns:\n    """Batches."""\n',
    "operators/control/__init__.py": "",
    "operators/control/cli.py": "import time\n",
    "operators/spark/__init__.py": "",
    "examples/hello.py": "import hailer\n",
    "tests/test_delay.py": "from framework.simulation import cluster\nStream().delay(1)\n",
    "tests/unit/framework/wire/test_codec.py": "",
    "docs/reference/names.md": "# Names\n",
    "docs/reference/operators.md": "## `Stream.delay`\n",
}

Plant = Callable[[dict[str, str]], Source]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Grows the clean tree with some of its files changed or added."""

    def grow(changes: dict[str, str]) -> Source:
        for where, text in {**CLEAN, **changes}.items():
            path = tmp_path / where
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Source(tmp_path)

    return grow
