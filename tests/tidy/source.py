"""The project's source as the tidy checks see it: modules, and the imports between them.

Nothing is imported or run; everything is read from the syntax tree, so that an import inside a function, behind
`TYPE_CHECKING` or through `importlib.import_module("…")` counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PACKAGES = ("framework", "routing", "operators")
"""The packages that are shipped, lowest layer first."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `target` is a dotted module, or a module and a name in it."""

    target: str
    line: int
    typing_only: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """One Python file of the project."""

    name: str
    path: Path
    where: str
    """The path from the root, for messages."""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), filename=str(self.path))

    @cached_property
    def imports(self) -> list[Import]:
        is_package = self.path.name == "__init__.py"
        package = self.name if is_package else self.name.rpartition(".")[0]
        return list(_imports(self.tree, package, typing_only=False))


@dataclass(frozen=True)
class Source:
    """All Python files below `root` that belong to the project."""

    root: Path

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Each file under its dotted name."""
        found = {}
        for top in (*PACKAGES, "examples", "tests"):
            for path in sorted((self.root / top).rglob("*.py")):
                where = path.relative_to(self.root)
                parts = where.with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                found[name] = Module(name, path, str(where))
        return found

    def within(self, *packages: str) -> list[Module]:
        """The modules of `packages`, each given by its dotted name."""
        return [
            module
            for module in self.modules.values()
            if any(module.name == package or module.name.startswith(package + ".") for package in packages)
        ]

    def resolve(self, target: str) -> Module | None:
        """The module of this project that an import of `target` reads from: `target` itself or what holds the name."""
        return self.modules.get(target) or self.modules.get(target.rpartition(".")[0])


def _imports(node: ast.AST, package: str, *, typing_only: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield Import(alias.name, node.lineno, typing_only)
        case ast.ImportFrom(module=module, names=names, level=level):
            base = _absolute(package, module, level)
            for alias in names:
                yield Import(base if alias.name == "*" else f"{base}.{alias.name}", node.lineno, typing_only)
        case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")) if (
            node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        ):
            yield Import(node.args[0].value, node.lineno, typing_only)
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=body, orelse=orelse):
            for statement in body:
                yield from _imports(statement, package, typing_only=True)
            for statement in orelse:
                yield from _imports(statement, package, typing_only=typing_only)
            return
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, package, typing_only=typing_only)


def _absolute(package: str, module: str | None, level: int) -> str:
    if level == 0:
        return module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])
