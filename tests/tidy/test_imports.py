"""Each check of imports notices what it is there for, and nothing else: small trees, clean and broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tidy import imports
from tests.tidy.conftest import Plant
from tests.tidy.source import Source

CHECKS: list[Callable[[Source], list[str]]] = [
    imports.imports_against_the_layers,
    imports.imports_against_the_rooms,
    imports.impure_imports,
    imports.unprotected_pure_modules,
    imports.unimported_modules,
    imports.other_serializers,
    imports.logic_in_package_fronts,
]


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of the clean tree."""
    framework = {"progress": "", "wire": "progress", "simulation": "", "worker": "progress wire"}
    operators = {"stream": "core", "core": "stream", "columns": "stream", "spark": "", "control": "spark"}
    monkeypatch.setattr(imports, "ROOMS", {"framework": framework, "operators": operators})
    monkeypatch.setattr(imports, "PURE", {"framework.progress": "all", "framework.wire": "all", "framework": "errors"})


@pytest.mark.parametrize("check", CHECKS)
def test_a_clean_tree_passes(plant: Plant, check: Callable[[Source], list[str]]):
    assert check(plant({})) == []


@pytest.mark.parametrize(
    "text",
    [
        "import routing\n",
        "import hailer\n",
        "from routing import options\n",
        "import operators.core.delay as later\n",
        "def late():\n    from routing.options import BINS\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from operators import delay\n",
        "from ..routing import options\n",
        "import importlib\nimportlib.import_module('examples.hello')\n",
        "try:\n    pass\nfinally:\n    import tests.kit\n",
    ],
)
def test_an_import_from_a_higher_layer(plant: Plant, text: str):
    line = len(text.splitlines())
    source = plant({"framework/worker.py": text})
    [problem] = imports.imports_against_the_layers(source)
    assert problem.startswith(f"framework/worker.py:{line}: framework must not import from ")


def test_the_front_door_imports_no_example(plant: Plant):
    [problem] = imports.imports_against_the_layers(plant({"hailer.py": "import examples.hello\n"}))
    assert problem == "hailer.py:1: hailer must not import from examples (examples.hello)"


@pytest.mark.parametrize(
    ("where", "text", "complaint"),
    [
        (
            "framework/wire/codec.py",
            "from framework.worker.worker import step\n",
            "framework.wire must not import from framework.worker.worker; it may from progress",
        ),
        (
            "framework/progress/order.py",
            "def late():\n    import framework.wire.codec\n",
            "framework.progress must not import from framework.wire.codec; it may from no other room",
        ),
        (
            "operators/core/delay.py",
            "import operators.stream\nimport operators.columns\n",
            "operators.core must not import from operators.columns; it may from stream",
        ),
        ("operators/schema.py", "", "belongs to no room; say in ROOMS what it may import"),
    ],
)
def test_an_import_from_a_room_above(plant: Plant, where: str, text: str, complaint: str):
    line = len(text.splitlines()) or 1
    assert imports.imports_against_the_rooms(plant({where: text})) == [f"{where}:{line}: {complaint}"]


def test_a_room_may_name_a_type_of_one_above(plant: Plant):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from framework.worker.worker import Worker\n"
    assert imports.imports_against_the_rooms(plant({"framework/wire/codec.py": text})) == []


def test_a_module_may_be_a_room_within_a_room(plant: Plant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(imports.ROOMS["framework"], "worker.worker", "simulation")
    text = "import framework.simulation.cluster\n"
    source = plant({"framework/worker/worker.py": text, "framework/worker/agenda.py": text})
    [problem] = imports.imports_against_the_rooms(source)
    assert problem.startswith("framework/worker/agenda.py:1: framework.worker must not import from ")


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
    [problem] = imports.impure_imports(plant({"framework/progress/order.py": text}))
    assert problem.startswith("framework/progress/order.py:")


def test_a_pure_module_that_reaches_a_socket_through_another(plant: Plant):
    text = "from framework.worker.worker import step\n"
    [problem] = imports.impure_imports(plant({"framework/progress/order.py": text}))
    assert problem.startswith("framework/worker/worker.py:1: a pure module must not import socket")
    assert "framework/progress/order.py -> framework/worker/worker.py" in problem


def test_a_pure_module_may_name_a_type_of_an_impure_one(plant: Plant):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from framework.worker.worker import Worker\n"
    assert imports.impure_imports(plant({"framework/progress/order.py": text})) == []


@pytest.mark.parametrize(("which", "noticed"), [("agenda", True), ("all but worker", True), ("all but agenda", False)])
def test_pure_modules_of_a_package_that_is_not_all_pure(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, which: str, noticed: bool
):
    monkeypatch.setitem(imports.PURE, "framework.worker", which)
    problems = imports.impure_imports(plant({"framework/worker/agenda.py": "import time\n"}))
    assert any(problem.startswith("framework/worker/agenda.py:1: ") for problem in problems) is noticed


def test_a_pure_module_that_is_not_listed(plant: Plant):
    source = plant({"routing/bins.py": "from framework.progress import order\n", "routing/hosts.py": "import socket\n"})
    assert imports.unprotected_pure_modules(source) == [
        "routing/bins.py:1: is pure; list it in PURE, so that it stays so"
    ]


def test_a_module_that_only_its_own_test_imports(plant: Plant):
    source = plant({"framework/forgotten.py": "", "tests/test_forgotten.py": "import framework.forgotten\n"})
    [problem] = imports.unimported_modules(source)
    assert problem.startswith("framework/forgotten.py:1:")


def test_modules_that_only_import_each_other(plant: Plant):
    source = plant({"routing/one.py": "from routing import two\n", "routing/two.py": "from routing import one\n"})
    assert [problem.partition(":")[0] for problem in imports.unimported_modules(source)] == [
        "routing/one.py",
        "routing/two.py",
    ]


def test_a_test_kit_that_no_test_uses(plant: Plant):
    [problem] = imports.unimported_modules(plant({"framework/simulation/links.py": ""}))
    assert problem.startswith("framework/simulation/links.py:1:")


def test_what_the_front_door_reaches_is_alive(plant: Plant):
    source = plant(
        {
            "hailer.py": "import operators.columns\ndef __getattr__(name):\n    import routing.bins\n",
            "routing/bins.py": "",
        }
    )
    assert imports.unimported_modules(source) == []


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("framework/worker/worker.py", "import msgpack\n"),
        ("examples/hello.py", "from msgpack import packb\n"),
        ("framework/wire/codec.py", "import pickle\n"),
        ("tests/test_delay.py", "def test():\n    from marshal import loads\n"),
    ],
)
def test_a_second_serializer(plant: Plant, where: str, text: str):
    [problem] = imports.other_serializers(plant({where: text}))
    assert problem.startswith(f"{where}:")


def test_a_test_may_compare_with_the_serializer_itself(plant: Plant):
    assert imports.other_serializers(plant({"tests/test_codec.py": "import msgpack\n"})) == []


def test_logic_in_a_package_front(plant: Plant):
    [problem] = imports.logic_in_package_fronts(plant({"framework/progress/__init__.py": "def main(): ...\n"}))
    assert problem.startswith("framework/progress/__init__.py:1:")


def test_a_package_without_a_front(plant: Plant):
    [problem] = imports.logic_in_package_fronts(plant({"framework/net/link.py": ""}))
    assert problem == "framework/net: has modules, but no __init__.py"
