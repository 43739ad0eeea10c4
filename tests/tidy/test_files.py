"""Each check of files notices what it is there for, and nothing else: small trees, clean and broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import files
from tests.tidy.conftest import Plant

CHECKS: list[Callable[[Path], list[str]]] = [
    files.strangers_at_the_top,
    files.stray_text,
    files.tests_without_a_room,
    files.dangling_file_names,
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_clean_tree_passes(plant: Plant, check: Callable[[Path], list[str]]):
    assert check(plant({}).root) == []


def test_a_stranger_at_the_top(plant: Plant):
    changes = {"notes.txt": "", ".gitignore": "/build/\n*.egg-info/\n", "build/lib": "", "hailer.egg-info/PKG-INFO": ""}
    [problem] = files.strangers_at_the_top(plant(changes).root)
    assert problem.startswith("notes.txt: ")


@pytest.mark.parametrize("word", ["/" + "home/ada/hailer", "TO" + "DO", "FIX" + "ME"])
@pytest.mark.parametrize("where", ["framework/worker.py", "docs/reference/operators.md", ".ci/run"])
def test_text_that_must_not_stay(plant: Plant, where: str, word: str):
    [problem] = files.stray_text(plant({where: f"# as usual\n# see {word} for this\n"}).root)
    assert problem.startswith(f"{where}:2: ")


def test_paths_of_the_project_are_no_machine_paths(plant: Plant):
    text = "See framework/worker, ./home/x, https://example.org/home/x and framework/root/scope.\n"
    assert files.stray_text(plant({"README.md": text}).root) == []


def test_unit_tests_of_a_room_that_is_elsewhere(plant: Plant):
    changes = {"tests/unit/framework/codec/test_rows.py": "", "tests/unit/framework/kit/models.py": ""}
    assert files.tests_without_a_room(plant(changes).root) == [
        "tests/unit/framework/codec: there is no framework/codec/; move unit tests along with what they test"
    ]


def test_a_page_that_names_a_file_that_is_elsewhere(plant: Plant):
    text = "`framework/worker.py` runs\n`framework/gone.py`, see [there](framework/gone.md)\n"
    changes = {"docs/internals/walk.md": text, "framework/worker.py": ""}
    assert files.dangling_file_names(plant(changes).root) == [
        "docs/internals/walk.md:2: there is no framework/gone.py; say where it is now"
    ]
