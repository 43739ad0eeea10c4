"""Each check of names notices what it is there for, and nothing else: small trees, clean and broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tidy import names
from tests.tidy.conftest import Plant
from tests.tidy.source import Source

CHECKS: list[Callable[[Source], list[str]]] = [
    names.unfinished_vocabulary,
    names.dangling_paths,
    names.names_of_two_things,
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_clean_tree_passes(plant: Plant, check: Callable[[Source], list[str]]):
    assert check(plant({})) == []


@pytest.mark.parametrize(
    ("where", "text", "complaint"),
    [
        (
            "operators/core/delay.py",
            "def delay(): ...\n",
            "`delay` has no docstring; say what it does, with an example",
        ),
        ("tests/test_delay.py", "# delay\n'delay'\nStream\n", "no test uses `delay`"),
        (
            "docs/reference/operators.md",
            "`Stream`, a delay, and `delays`.\n",
            "docs/reference does not mention `delay`",
        ),
    ],
)
def test_an_operator_that_is_not_finished(plant: Plant, where: str, text: str, complaint: str):
    problems = set(names.unfinished_vocabulary(plant({where: text})))
    line = 1 if where == "operators/core/delay.py" else 2
    assert problems == {f"operators/core/delay.py:{line}: {complaint}"}


def test_a_method_that_is_not_finished(plant: Plant):
    text = 'class Columns:\n    """Batches."""\n    def sort(self): ...\n    def _hide(self): ...\n'
    assert names.unfinished_vocabulary(plant({"operators/columns/stream.py": text})) == [
        "operators/columns/stream.py:3: `sort` has no docstring; say what it does, with an example",
        "operators/columns/stream.py:3: no test uses `sort`",
        "operators/columns/stream.py:3: docs/reference does not mention `sort`",
    ]


def test_a_constant_has_its_docstring_behind_it(plant: Plant):
    changes = {
        "operators/__init__.py": "from operators.core.delay import HOUR\n__all__ = ['HOUR']\n",
        "tests/test_hour.py": "from operators import HOUR\n",
        "docs/reference/times.md": "`HOUR`\n",
    }
    delay = 'def delay():\n    """Later."""\n'
    source = plant({**changes, "operators/core/delay.py": f"{delay}HOUR: int = 3600\n"})
    assert names.unfinished_vocabulary(source) == [
        "operators/core/delay.py:3: `HOUR` has no docstring; say what it does, with an example"
    ]
    source = plant({**changes, "operators/core/delay.py": f'{delay}HOUR: int = 3600\n"""Seconds."""\n'})
    assert names.unfinished_vocabulary(source) == []


@pytest.mark.parametrize(
    "where", ["docs/concepts.md", "README.md", "operators/core/empty.py", "docs/reference/jobs.md"]
)
@pytest.mark.parametrize("path", ["framework.clock", "operators.core.delay.delays", "operators.stream.Streams.map"])
def test_a_path_that_leads_nowhere(plant: Plant, where: str, path: str):
    text = f"# As `operators.core.delay.delay`, `routing/x.py`, `operators.Stream.delay` and\n# `{path}(1)` do.\n"
    assert names.dangling_paths(plant({where: text})) == [f"{where}:2: there is no {path}"]


@pytest.mark.parametrize("text", ["class Stream: ...\n", "Stream = list[int]\n", "Stream: TypeAlias = int\n"])
def test_one_name_for_two_types(plant: Plant, text: str):
    assert names.names_of_two_things(plant({"framework/net.py": text})) == [
        "operators/stream.py:3: `Stream` is also in framework/net.py:1; tell them apart"
    ]


def test_names_that_may_recur(plant: Plant):
    text = 'T = TypeVar("T")\nLIMIT = 3\nclass _Step: ...\ndef run(): ...\n'
    assert names.names_of_two_things(plant({"framework/one.py": text, "routing/two.py": text})) == []
