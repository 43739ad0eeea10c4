"""Names: what users are offered is documented and tested, what texts name exists, and one name is one thing.

A check returns one line per violation, `file:line: what is wrong and what to do`; an empty list is a pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import PACKAGES, Definition, Module, Source, definitions

FRONTS = ("operators", "operators.columns", "operators.spark")
"""Packages whose `__all__` is the vocabulary of jobs."""

STREAMS = ("operators.stream.Stream", "operators.columns.stream.Columns")
"""Classes whose methods are operators."""

PATH = re.compile(rf"`((?:{'|'.join((*PACKAGES, 'examples', 'tests'))})(?:\.\w+)+)(?![\w/])")
"""A module, or a name in one, as texts show it."""

CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
"""A block of code on a page, or a piece of a line."""

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""A word of an identifier, be it snake_case or CamelCase."""

RETIRED = {
    "blame": "attach_record",
    "borrowed": "received",
    "call_up": "on_due",
    "conversation": "connection",
    "dealer": "scatter",
    "dealing": "scatter",
    "depot": "spill buffer",
    "forwarder": "router operator (F)",
    "gathering": "take",
    "go_on": "advance, or resume",
    "hire": "spawn",
    "inquiry": "RPC",
    "let_go": "release, close or drop",
    "overseer": "job service",
    "parcel": "blob",
    "portal": "broker",
    "pulse": "progress",
    "rationed": "rate-limited",
    "shelf": "state backend",
    "shelves": "state backends",
    "steering": "steward",
    "stewardship": "migration controller",
    "vitals": "worker status",
    "workforce": "processes",
    "worth": "combine heuristic",
}
"""Words, or words in a row, that have given way to what the field says; and what that is.

Those that also mean something else (gate, place, site, stock), and those in names that users call (`Bin.put_off`,
`Steward.see_off`), are not among them.
"""


def unfinished_vocabulary(source: Source) -> list[str]:
    """What jobs are written with has a docstring where it is defined, is used by a test, and is in `docs/reference`.

    To be on the list of all names is not enough.
    """
    used = {name for module in source.within("tests") for name in _names_used(module)}
    pages = [page for page in sorted(source.root.glob("docs/reference/**/*.md")) if page.name != "names.md"]
    code = [code for page in pages for _, code in CODE.findall(page.read_text(encoding="utf-8"))]
    documented = {word for text in code for word in re.findall(r"\w+", text)}
    problems = []
    for name, definition in _vocabulary(source):
        if not definition.docstring:
            problems.append(f"{definition.where}: `{name}` has no docstring; say what it does, with an example")
        if name not in used:
            problems.append(f"{definition.where}: no test uses `{name}`")
        if name not in documented:
            problems.append(f"{definition.where}: docs/reference does not mention `{name}`")
    return problems


def dangling_paths(source: Source) -> list[str]:
    """A module, or a name in one, that a page, a docstring or a comment shows as code exists."""
    pages = [path for path in (source.root / "README.md", *sorted(source.root.glob("docs/**/*.md"))) if path.exists()]
    texts = [(str(page.relative_to(source.root)), page.read_text(encoding="utf-8")) for page in pages]
    texts += [(module.where, module.text) for module in source.modules.values()]
    return [
        f"{where}:{number}: there is no {found[1]}"
        for where, text in texts
        for number, line in enumerate(text.splitlines(), start=1)
        for found in PATH.finditer(line)
        if not _exists(source, found[1])
    ]


def names_of_two_things(source: Source) -> list[str]:
    """No two classes or type aliases have one name, be they private, so that a name says which is meant."""
    first: dict[str, Definition] = {}
    problems = []
    for module in source.shipped:
        for definition in definitions(module, module.tree.body):
            name = definition.name
            if not definition.is_type:
                continue
            if name in first:
                problems.append(f"{definition.where}: `{name}` is also in {first[name].where}; tell them apart")
            first.setdefault(name, definition)
    return problems


def retired_words(source: Source) -> list[str]:
    """No module, class, function, argument, attribute or variable has a retired word in its name: `RETIRED`."""
    return [
        f'{module.where}:{line}: `{name}` uses the retired word "{word}"; say {instead}'
        for module in source.modules.values()
        for name, line in _first_definitions(module).items()
        for words in [f"_{'_'.join(WORD.findall(name)).lower()}_"]
        for word, instead in RETIRED.items()
        if f"_{word}_" in words or f"_{word}s_" in words
    ]


def _vocabulary(source: Source) -> Iterator[tuple[str, Definition]]:
    for front in FRONTS:
        for name in source.modules[front].exports:
            definition = source.find(f"{front}.{name}")
            assert definition is not None, f"{front}.{name} is not found in the source"
            yield name, definition
    for target in STREAMS:
        path, _, class_name = target.rpartition(".")
        module = source.modules[path]
        body = next(
            node.body for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name == class_name
        )
        for method in definitions(module, body):
            if not method.name.startswith("_"):
                same_as = source.find(module.aliases[method.value]) if method.value in module.aliases else None
                yield method.name, same_as or method


def _exists(source: Source, target: str) -> bool:
    """Whether it is a module, a name in one, or an attribute of such a name, which is not looked for."""
    if target.endswith((".md", ".py", ".toml")):
        return True
    parent = source.find(target.rpartition(".")[0])
    return source.find(target) is not None or (parent is not None and bool(parent.name))


def _names_used(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
    for imported in module.imports:
        yield from imported.target.split(".")


def _first_definitions(module: Module) -> dict[str, int]:
    """The names that a module defines, and its own, with the line where each turns up first."""
    found = dict.fromkeys(module.name.split("."), 1)
    for line, name in sorted((line, name) for node in ast.walk(module.tree) for line, name in _defined(node)):
        found.setdefault(name, line)
    return found


def _defined(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield node.lineno, name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
            yield node.lineno, name
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield node.lineno, name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield node.lineno, name
