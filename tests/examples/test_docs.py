"""What the documentation shows is what happens: code, commands and what they print; and its links lead somewhere."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.examples.pages import Block, Command, blocks, commands, links, matches, pages, programs
from tests.processes import ROOT, Ended, free_ports, run, run_together

SLOW = ("README.md", "docs/howto/run-on-spark.md", "docs/howto/use-from-spark.md")
"""Pages that start Java, which takes its time."""

SLOW_S = 240.0

PAGES = [
    pytest.param(page, id=name, marks=[pytest.mark.timeout(SLOW_S + 60)] if name in SLOW else [])
    for page in pages()
    for name in [str(page.relative_to(ROOT))]
]


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = reader(page, tmp_path)
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(directory)
    for file in directory.glob("*.py"):
        monkeypatch.delitem(sys.modules, file.stem, raising=False)  # another page's file of that name
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block, expected in programs(page):
        # Blank lines before the block, so that a traceback names the line of the page.
        code = compile("\n" * (block.line - 1) + block.body, str(page), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        assert printed.getvalue() == expected, f"{page}:{block.line}"
    namespace.clear()
    gc.collect()  # a capability that the page leaves behind warns here, and not in another test


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = reader(page, tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for block in blocks(page):
        if block.kind != "console":
            continue
        outcomes = execute(block, directory, tmp_path)
        whole = "\n".join("\n".join([f"$ {command.text}", *actual]) for command, actual in outcomes)
        for command, actual in outcomes:
            assert matches(command.expected, actual, varying(block)), (
                f"{page}:{block.line}: $ {command.text}, in\n{whole}"
            )


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path):
    assert [target for target in links(page) if not (page.parent / target).exists()] == []


def test_what_make_test_is_told_does_not_reach_make_run(monkeypatch: pytest.MonkeyPatch):
    told = shell("make run")
    monkeypatch.setenv("ARGS", "-n 2")
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=-n\\ 2")
    assert shell("make run") == told


def reader(page: Path, tmp_path: Path) -> Path:
    """A directory as the reader of a page has it: with the examples, and the files that the page tells to write."""
    directory = tmp_path / "reader"
    directory.mkdir()
    for name in ("examples", "tests"):
        (directory / name).symlink_to(ROOT / name)
    for block in blocks(page):
        if block.title is not None:
            (directory / block.title).write_text(block.body, encoding="utf-8")
    return directory


def execute(block: Block, directory: Path, state: Path) -> list[tuple[Command, list[str]]]:
    """Run the commands of a block; what each of them printed, on either stream."""
    shown = commands(block)
    if block.remark == "together":
        port = free_ports(8)
        shells = [shell(re.sub(r" (-p ?\d)", rf" \1 --base-port {port}", command.text)) for command in shown]
        outcomes = run_together(shells, state, directory)
    else:
        outcomes = [run(*shell(command.text), state=state, cwd=directory, timeout_s=SLOW_S) for command in shown]
    return [(command, printed(outcome)) for command, outcome in zip(shown, outcomes, strict=True)]


def shell(text: str) -> tuple[str, ...]:
    if text == "make run":
        # Without its set-up, which is not to be touched while tests run in it; and without what `make test` was told,
        # if that is what runs this.
        alone = "env", *(part for name in ("MAKEFLAGS", "MFLAGS", "ARGS") for part in ("-u", name))
        recipe = run(*alone, "make", "--no-print-directory", "--dry-run", "run", state=ROOT).lines[-1]
        return "bash", "-c", f"cd {shlex.quote(str(ROOT))} && {recipe}"
    return "bash", "-c", text


def printed(outcome: Ended) -> list[str]:
    return [*outcome.out.splitlines(), *outcome.err.splitlines()]


def varying(block: Block) -> list[str]:
    head, _, words = block.remark.partition(":")
    return [word.strip() for word in words.split(",")] if head == "varies" else []
