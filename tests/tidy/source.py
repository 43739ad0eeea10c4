"""The project's source as the tidy checks see it: modules, and the imports between them.

Nothing is imported or run; everything is read from the syntax tree, so that an import inside a function, behind
`TYPE_CHECKING` or through `importlib.import_module("…")` counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

PACKAGES = ("framework", "routing", "operators")
"""The packages that are shipped, lowest layer first."""

FRONT_DOOR = "hailer"
"""The one module that is shipped beside them."""

TYPE_VARIABLES = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `target` is a dotted module, or a module and a name in it."""

    target: str
    line: int
    typing_only: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Definition:
    """A module, or a name that it defines."""

    module: Module
    line: int
    docstring: str | None
    name: str = ""
    value: str | None = None
    """The name that this one is just another for."""
    is_type: bool = False
    """Whether it is a class, or another name of a type."""

    @property
    def where(self) -> str:
        return f"{self.module.where}:{self.line}"


@dataclass(frozen=True)
class Module:
    """One Python file of the project."""

    name: str
    path: Path
    where: str
    """The path from the root, for messages."""

    @property
    def package(self) -> str:
        """The package that it is in; of a package's front, that package."""
        return self.name if self.is_front else self.name.rpartition(".")[0]

    @property
    def is_front(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.tree, self.package, typing_only=False))

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each imported name stands for: a module, or a module and a name in it."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module and not node.level
            for alias in node.names
        }

    @cached_property
    def exports(self) -> list[str]:
        """`__all__`."""
        for node in self.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
                    return [str(each.value) for each in elements if isinstance(each, ast.Constant)]
        return []


@dataclass(frozen=True)
class Source:
    """All Python files below `root` that belong to the project."""

    root: Path

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Each file under its dotted name."""
        paths = [path for top in (*PACKAGES, "examples", "tests") for path in sorted((self.root / top).rglob("*.py"))]
        found = {}
        for path in [*self.root.glob(f"{FRONT_DOOR}.py"), *paths]:
            where = path.relative_to(self.root)
            parts = where.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path, str(where))
        return found

    @property
    def shipped(self) -> list[Module]:
        """The modules that users install."""
        return self.within(*PACKAGES, FRONT_DOOR)

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

    def find(self, target: str) -> Definition | None:
        """What `target` stands for, a module or a name in one: where it is defined, through all re-exports."""
        module = self.modules.get(target)
        if module is not None:
            return Definition(module, 1, ast.get_docstring(module.tree))
        module = self.modules.get(target.rpartition(".")[0])
        if module is None:
            return None
        name = target.rpartition(".")[2]
        imported = module.aliases.get(name)
        if imported is not None and imported != target:
            return self.find(imported)
        return next((each for each in definitions(module, module.tree.body) if each.name == name), None)


def definitions(module: Module, body: list[ast.stmt]) -> Iterator[Definition]:
    """What the statements of a module or a class define. A name with overloads has the docstring of any of them."""
    found: dict[str, Definition] = {}
    for node, after in pairwise([*body, ast.Pass()]):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                docstring, value, is_type = ast.get_docstring(node), None, isinstance(node, ast.ClassDef)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                docstring, is_type = _string(after), _is_type(name, node.value)
                value = node.value.id if isinstance(node.value, ast.Name) else None
            case _:
                continue
        earlier = found.get(name)
        if earlier is None or not earlier.docstring:
            found[name] = Definition(module, node.lineno, docstring, name, value, is_type)
    yield from found.values()


def _is_type(name: str, value: ast.expr | None) -> bool:
    """Whether an assignment gives a type a name. Variables of types are named alike everywhere."""
    is_variable = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in TYPE_VARIABLES
    return name.lstrip("_")[:1].isupper() and not name.isupper() and not is_variable


def _string(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return None


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
