"""The house is in order: each rule of `checks`, on the real tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy import checks
from tests.tidy.source import Source

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(ROOT)


def test_imports_point_one_way(source: Source):
    _pass(checks.imports_against_the_layers(source))


def test_pure_packages_reach_no_io(source: Source):
    assert source.within(*checks.PURE), "the list of pure packages names none that exists"
    _pass(checks.impure_imports(source))


def test_no_module_is_unimported(source: Source):
    _pass(checks.unimported_modules(source))


def test_there_is_one_serializer(source: Source):
    _pass(checks.other_serializers(source))


def test_package_fronts_hold_re_exports_only(source: Source):
    _pass(checks.logic_in_package_fronts(source))


def test_every_operator_is_documented_and_tested(source: Source):
    _pass(checks.unfinished_operators(source))


def test_the_top_level_holds_only_what_belongs_there():
    _pass(checks.strangers_at_the_top(ROOT))


def test_no_machine_paths_and_nothing_left_undone():
    _pass(checks.stray_text(ROOT))


def _pass(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
