"""The house is in order: each rule, on the real tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy import files, fronts, imports, names
from tests.tidy.source import Source

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(ROOT)


def test_imports_point_one_way(source: Source):
    _pass(imports.imports_against_the_layers(source))


def test_rooms_import_from_those_below(source: Source):
    _pass(imports.imports_against_the_rooms(source))


def test_pure_modules_reach_no_io(source: Source):
    _pass(imports.impure_imports(source))


def test_every_pure_module_is_protected(source: Source):
    _pass(imports.unprotected_pure_modules(source))


def test_no_module_is_unimported(source: Source):
    _pass(imports.unimported_modules(source))


def test_there_is_one_serializer(source: Source):
    _pass(imports.other_serializers(source))


def test_package_fronts_hold_re_exports_only(source: Source):
    _pass(imports.logic_in_package_fronts(source))


def test_what_jobs_are_written_with_is_documented_and_tested(source: Source):
    _pass(names.unfinished_vocabulary(source))


def test_a_page_lists_what_users_import(source: Source):
    _pass(fronts.unlisted_names(source))


def test_users_find_all_errors_in_one_place(source: Source):
    _pass(fronts.unexported_errors(source))


def test_users_import_from_the_fronts_only(source: Source):
    _pass(fronts.imports_past_the_fronts(source))


def test_texts_name_only_what_exists(source: Source):
    _pass(names.dangling_paths(source))


def test_no_two_types_have_one_name(source: Source):
    _pass(names.names_of_two_things(source))


def test_retired_words_stay_out_of_names(source: Source):
    _pass(names.retired_words(source))


def test_the_top_level_holds_only_what_belongs_there():
    _pass(files.strangers_at_the_top(ROOT))


def test_no_machine_paths_and_nothing_left_undone():
    _pass(files.stray_text(ROOT))


def test_unit_tests_mirror_the_source():
    _pass(files.tests_without_a_room(ROOT))


def test_pages_name_files_that_exist():
    _pass(files.dangling_file_names(ROOT))


def _pass(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
