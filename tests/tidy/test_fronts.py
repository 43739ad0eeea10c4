"""Each check of the fronts notices what it is there for, and nothing else: small trees, clean and broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tidy import fronts
from tests.tidy.conftest import Plant
from tests.tidy.source import Source

CHECKS: list[Callable[[Source], list[str]]] = [
    fronts.unlisted_names,
    fronts.unexported_errors,
    fronts.imports_past_the_fronts,
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_clean_tree_passes(plant: Plant, check: Callable[[Source], list[str]]):
    assert check(plant({})) == []


def test_names_that_the_page_lists_and_does_not_list(plant: Plant):
    changes = {
        "operators/plans.py": (
            "from routing.plan import Plan, run\nHOUR: int = 3600\n__all__ = ['HOUR', 'Plan', 'run']\n"
        ),
        "routing/plan.py": 'class Plan:\n    """Steps."""\ndef run(): ...\n',
        "docs/reference/names.md": "`HOUR`\n## `operators.plans`\n| `Plan`, `Steps` | `HOUR` |\n`run` | and\n",
    }
    assert fronts.unlisted_names(plant(changes)) == [
        "docs/reference/names.md:1: does not list `HOUR` of operators.plans; say what it is",
        "docs/reference/names.md:1: does not list `run` of operators.plans; say what it is",
        "docs/reference/names.md:1: lists `Steps`, which operators.plans does not export; take it out, or export it",
        "operators/plans.py:2: `HOUR` is public and has no docstring; say what it does",
        "routing/plan.py:3: `run` is public and has no docstring; say what it does",
    ]


def test_an_error_that_users_do_not_find(plant: Plant):
    changes = {
        "operators/errors.py": "from routing.errors import Known\n__all__ = ['Known']\nclass Own(Exception): ...\n",
        "routing/errors.py": "class Known(Exception): ...\nclass Unknown(Exception): ...\n",
    }
    assert sorted(fronts.unexported_errors(plant(changes))) == [
        "operators/errors.py:3: `Own` is not in operators.errors; put it into `__all__` there",
        "routing/errors.py:2: `Unknown` is not in operators.errors; put it into `__all__` there",
    ]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("from framework.wire import codec", "framework.wire.codec"),
        ("import routing.options", "routing.options"),
        ("from operators.core.delay import delay", "operators.core.delay.delay"),
        ("from operators import stream", "operators.stream"),
        ("from hailer import late", "hailer.late"),
    ],
)
@pytest.mark.parametrize(
    ("where", "before", "after", "at"),
    [
        ("examples/tea.py", "import os\n", "", 2),
        ("README.md", "Tea:\n\n```python\nimport os\n", "```\n", 5),
        ("docs/howto/tea.md", '```python title="tea.py"\n', "```\n", 2),
    ],
)
def test_what_is_imported_past_the_fronts(
    plant: Plant, line: str, target: str, where: str, before: str, after: str, at: int
):
    assert fronts.imports_past_the_fronts(plant({where: f"{before}{line}\n{after}"})) == [
        f"{where}:{at}: {target} is behind the fronts; import what docs/reference/names.md lists, or list it there"
    ]


def test_what_may_be_imported(plant: Plant):
    changes = {
        "examples/tea.py": "import hailer\nimport os.path\nfrom operators import delay\nimport operators.columns\n",
        "docs/internals/wire.md": "```python\nfrom framework.wire import codec\n```\n",
        "docs/howto/tea.md": "```sh\nimport framework.wire\n```\n",
    }
    assert fronts.imports_past_the_fronts(plant(changes)) == []
