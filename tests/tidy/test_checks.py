"""Each check notices what it is there for, and nothing else: small trees, clean and broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import checks
from tests.tidy.source import Source

CLEAN = {
    "pyproject.toml": '[project.scripts]\nhailer = "routing.command:main"\n',
    "framework/__init__.py": '"""Front."""\nfrom framework.worker import step\n__all__ = ["step"]\n',
    "framework/worker.py": "import socket\nfrom framework.progress import order\nfrom framework.wire import codec\n",
    "framework/progress/__init__.py": "",
    "framework/progress/order.py": "from bisect import insort\n",
    "framework/wire/__init__.py": "",
    "framework/wire/codec.py": "import msgpack\nfrom uuid import UUID\n",
    "framework/simulation/__init__.py": "",
    "framework/simulation/cluster.py": "",
    "routing/__init__.py": "",
    "routing/command.py": "import framework\n",
    "operators/__init__.py": "from operators.core.delay import delay\n",
    "operators/core/__init__.py": "",
    "operators/core/delay.py": '"""Moves records to a later time."""\n',
    "examples/hello.py": "import operators\n",
    "tests/test_delay.py": "from framework.simulation import cluster\nstream.delay(1)\n",
    "docs/reference/operators.md": "## `delay`\n",
}

Check = Callable[[Source], list[str]]
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


ON_SOURCE: list[Check] = [
    checks.imports_against_the_layers,
    checks.impure_imports,
    checks.unimported_modules,
    checks.other_serializers,
    checks.logic_in_package_fronts,
    checks.unfinished_operators,
    lambda source: checks.strangers_at_the_top(source.root),
    lambda source: checks.stray_text(source.root),
]


@pytest.mark.parametrize("check", ON_SOURCE)
def test_a_clean_tree_passes(plant: Plant, check: Check):
    assert check(plant({})) == []


@pytest.mark.parametrize(
    "text",
    [
        "import routing\n",
        "from routing import command\n",
        "import operators.core.delay as later\n",
        "def late():\n    from routing.command import main\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from operators import delay\n",
        "from ..routing import command\n",
        "import importlib\nimportlib.import_module('examples.hello')\n",
        "try:\n    pass\nfinally:\n    import tests.kit\n",
    ],
)
def test_an_import_from_a_higher_layer(plant: Plant, text: str):
    line = len(text.splitlines())
    [problem] = checks.imports_against_the_layers(plant({"framework/worker.py": text}))
    assert problem.startswith(f"framework/worker.py:{line}: framework must not import from ")


@pytest.mark.parametrize(
    "text",
    [
        "import time\n",
        "from os import path\n",
        "import concurrent.futures\n",
        "from uuid import uuid4\n",
        "def pick():\n    from random import choice\n",
        "def show(value):\n    print(value)\n",
    ],
)
def test_a_pure_module_with_a_side_effect(plant: Plant, text: str):
    [problem] = checks.impure_imports(plant({"framework/progress/order.py": text}))
    assert problem.startswith("framework/progress/order.py:")


def test_a_pure_module_that_reaches_a_socket_through_another(plant: Plant):
    [problem] = checks.impure_imports(plant({"framework/progress/order.py": "from framework.worker import step\n"}))
    assert problem.startswith("framework/worker.py:1: a pure module must not import socket")
    assert "framework/progress/order.py -> framework/worker.py" in problem


def test_a_pure_module_may_name_a_type_of_an_impure_one(plant: Plant):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from framework.worker import Worker\n"
    assert checks.impure_imports(plant({"framework/progress/order.py": text})) == []


def test_a_module_that_only_its_own_test_imports(plant: Plant):
    source = plant({"framework/forgotten.py": "", "tests/test_forgotten.py": "import framework.forgotten\n"})
    [problem] = checks.unimported_modules(source)
    assert problem.startswith("framework/forgotten.py:1:")


def test_modules_that_only_import_each_other(plant: Plant):
    source = plant({"routing/one.py": "from routing import two\n", "routing/two.py": "from routing import one\n"})
    assert [problem.partition(":")[0] for problem in checks.unimported_modules(source)] == [
        "routing/one.py",
        "routing/two.py",
    ]


def test_a_test_kit_that_no_test_uses(plant: Plant):
    [problem] = checks.unimported_modules(plant({"framework/simulation/links.py": ""}))
    assert problem.startswith("framework/simulation/links.py:1:")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("framework/worker.py", "import msgpack\n"),
        ("examples/hello.py", "from msgpack import packb\n"),
        ("framework/wire/codec.py", "import pickle\n"),
        ("tests/test_delay.py", "def test():\n    from marshal import loads\n"),
    ],
)
def test_a_second_serializer(plant: Plant, where: str, text: str):
    [problem] = checks.other_serializers(plant({where: text}))
    assert problem.startswith(f"{where}:")


def test_a_test_may_compare_with_the_serializer_itself(plant: Plant):
    assert checks.other_serializers(plant({"tests/test_codec.py": "import msgpack\n"})) == []


def test_a_stranger_at_the_top(plant: Plant):
    changes = {"notes.txt": "", ".gitignore": "/build/\n*.egg-info/\n", "build/lib": "", "hailer.egg-info/PKG-INFO": ""}
    [problem] = checks.strangers_at_the_top(plant(changes).root)
    assert problem.startswith("notes.txt: ")


@pytest.mark.parametrize(
    ("where", "text", "complaint"),
    [
        ("operators/core/delay.py", "", "has no docstring"),
        ("tests/test_delay.py", "# delay\n'delay'\n", "no test uses `delay`"),
        ("docs/reference/operators.md", "A delay, and `delays`.\n", "docs/reference does not mention `delay`"),
    ],
)
def test_an_operator_that_is_not_finished(plant: Plant, where: str, text: str, complaint: str):
    [problem] = checks.unfinished_operators(plant({where: text}))
    assert problem.startswith("operators/core/delay.py:1: ")
    assert complaint in problem


def test_logic_in_a_package_front(plant: Plant):
    [problem] = checks.logic_in_package_fronts(plant({"framework/progress/__init__.py": "def main(): ...\n"}))
    assert problem.startswith("framework/progress/__init__.py:1:")


def test_a_package_without_a_front(plant: Plant):
    [problem] = checks.logic_in_package_fronts(plant({"framework/net/link.py": ""}))
    assert problem == "framework/net: has modules, but no __init__.py"


@pytest.mark.parametrize("word", ["/" + "home/ada/hailer", "TO" + "DO", "FIX" + "ME"])
@pytest.mark.parametrize("where", ["framework/worker.py", "docs/reference/operators.md", ".ci/run"])
def test_text_that_must_not_stay(plant: Plant, where: str, word: str):
    [problem] = checks.stray_text(plant({where: f"# as usual\n# see {word} for this\n"}).root)
    assert problem.startswith(f"{where}:2: ")


def test_paths_of_the_project_are_no_machine_paths(plant: Plant):
    text = "See framework/worker, ./home/x, https://example.org/home/x and framework/root/scope.\n"
    assert checks.stray_text(plant({"README.md": text}).root) == []
