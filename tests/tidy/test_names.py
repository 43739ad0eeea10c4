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
    names.retired_words,
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


def test_one_name_for_two_private_types(plant: Plant):
    text = "class _Step: ...\n"
    assert names.names_of_two_things(plant({"framework/one.py": text, "routing/two.py": f"\n{text}"})) == [
        "routing/two.py:2: `_Step` is also in framework/one.py:1; tell them apart"
    ]


def test_names_that_may_recur(plant: Plant):
    text = 'T = TypeVar("T")\nLIMIT = 3\n_step = 1\ndef run(): ...\n'
    assert names.names_of_two_things(plant({"framework/one.py": text, "routing/two.py": text})) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class BinShelf: ...", "BinShelf"),
        ("class HTTPPortals: ...", "HTTPPortals"),
        ("def to_shelf(): ...", "to_shelf"),
        ("async def _hire(): ...", "_hire"),
        ("def f(a, /, *, shelf=1): ...", "shelf"),
        ("def f(*parcels, **rest): ...", "parcels"),
        ("print(lambda vitals: 1)", "vitals"),
        ("SHELF_BYTES_MAX = 1", "SHELF_BYTES_MAX"),
        ("class C:\n shelf: int", "shelf"),
        ("here._shelf = 1", "_shelf"),
        ("for _, (parcel, *_) in []: ...", "parcel"),
        ("with f() as portal: ...", "portal"),
        ("import json as depot", "depot"),
        ("try: ...\nexcept E as shelf: ...", "shelf"),
        ("match 1:\n case [*shelves]: ...", "shelves"),
        ("match 1:\n case int(real=shelf): ...", "shelf"),
        ("match 1:\n case {**shelf}: ...", "shelf"),
        ("if shelf := 1: ...", "shelf"),
        ("def callUpLater(): ...", "callUpLater"),
    ],
)
@pytest.mark.parametrize("where", ["framework/wire/body.py", "examples/tea.py", "tests/unit/test_tea.py"])
def test_a_retired_word_in_a_name(plant: Plant, where: str, text: str, name: str):
    line = len(text.splitlines())
    problems = names.retired_words(plant({where: f"{text}\n{text}\n"}))
    assert [problem.partition(" uses ")[0] for problem in problems] == [f"{where}:{line}: `{name}`"], "once per file"


def test_what_to_say_instead_of_a_retired_word(plant: Plant):
    changes = {"routing/portal/depot.py": "parcel = 1\n", "tests/unit/test_it.py": "def test_bins_go_on(): ...\n"}
    assert names.retired_words(plant(changes)) == [
        'routing/portal/depot.py:1: `portal` uses the retired word "portal"; say broker',
        'routing/portal/depot.py:1: `depot` uses the retired word "depot"; say spill buffer',
        'routing/portal/depot.py:1: `parcel` uses the retired word "parcel"; say blob',
        'tests/unit/test_it.py:1: `test_bins_go_on` uses the retired word "go_on"; say advance, or resume',
    ]


def test_words_that_only_look_retired(plant: Plant):
    text = (
        "import portal.depot\nfrom shelf import parcel\n# worth\n'hire'\n"
        "hired, going_on, letGoat, impulse, forward, put_off = portal.vitals, 1, 2, 3, f(shelf=1), 5\n"
    )
    assert names.retired_words(plant({"operators/core/say.py": text})) == []
