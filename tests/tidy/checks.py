"""The rules of the house, each a function from the source to the places that break it.

A check returns one line per violation, `file:line: what is wrong and what to do`; an empty list is a pass.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.tidy.source import PACKAGES, Module, Source

LAYERS = (*PACKAGES, "examples", "tests")
"""Each may import from those before it."""

PURE = ("framework.progress", "framework.wire")
"""Packages whose decisions are made from arguments alone."""

IMPURE = frozenset(
    "asyncio concurrent fcntl http logging mmap multiprocessing os pathlib queue random sched secrets select selectors "
    "shutil signal socket socketserver ssl subprocess tempfile threading time urllib uuid".split()
)
IMPURE_EXCEPT = frozenset({"uuid.UUID"})
IMPURE_BUILTINS = frozenset({"open", "print", "input"})

SERIALIZER = ("msgpack", "framework/wire/codec.py")
"""The library that turns rows into bytes, and the only file that may call it."""

UNSAFE_SERIALIZERS = frozenset("cloudpickle dill joblib jsonpickle marshal pickle shelve".split())

OWN_FRONTS = ("operators.spark",)
"""Packages that users import by themselves: not every job is to load what they need."""

OPERATORS = ("core", "input", "capture")
"""The rooms of `operators` in which every file is an operator."""

TEST_KITS = ("framework.simulation",)
"""Packages that exist to be driven by tests: being imported by a test is enough for them."""

TOP_LEVEL = frozenset(
    {*PACKAGES, "hailer.py", "hailer-stubs", "examples", "tests", "docs"}
    | {"pyproject.toml", "README.md", "Makefile", "LICENSE"}
)

MACHINE_PATH = re.compile(r"(?<![\w./])/(?:work|root|home|Users)/\w*")
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")


def imports_against_the_layers(source: Source) -> list[str]:
    """Imports point one way: framework ← routing ← operators ← examples."""
    return [
        f"{module.where}:{imported.line}: {top} must not import from {imported.top} ({imported.target})"
        for module in source.modules.values()
        for top in [module.name.partition(".")[0]]
        for imported in module.imports
        if imported.top in LAYERS and LAYERS.index(imported.top) > LAYERS.index(top)
    ]


def impure_imports(source: Source) -> list[str]:
    """Pure packages reach no I/O, clock, thread or random generator, themselves or through what they import."""
    problems = []
    chains: dict[str, str] = {module.name: module.where for module in source.within(*PURE)}
    waiting = deque(chains)
    while waiting:
        module = source.modules[waiting.popleft()]
        chain = chains[module.name]
        for imported in module.imports:
            if imported.typing_only:
                continue
            reached = source.resolve(imported.target)
            if reached is not None and reached.name not in chains:
                chains[reached.name] = f"{chain} -> {reached.where}"
                waiting.append(reached.name)
            elif imported.top in IMPURE and imported.target not in IMPURE_EXCEPT:
                problems.append(
                    f"{module.where}:{imported.line}: a pure module must not import {imported.target}; "
                    f"take what it gives as an argument (reached from {chain})"
                )
        problems += [
            f"{module.where}:{node.lineno}: a pure module must not call {node.func.id}() (reached from {chain})"
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS
        ]
    return problems


def unimported_modules(source: Source) -> list[str]:
    """Every module is reached from a package's own front, a command, a `__main__` or an example: no dead code.

    A test alone does not keep a module alive, except in the packages that are made for tests.
    """
    fronts = [module.name for module in source.modules.values() if _is_front(module)]
    alive = _reachable(source, [*fronts, *_commands(source.root)])
    alive |= {module.name for module in _reached_by_tests(source) if module in source.within(*TEST_KITS)}
    alive = _reachable(source, alive)
    return [
        f"{module.where}:1: no command, example or package front reaches this module; import it where it is used, "
        "or delete it"
        for module in source.within(*PACKAGES)
        if module.name not in alive
    ]


def other_serializers(source: Source) -> list[str]:
    """One serializer, in one file; nothing that can run code while it reads."""
    library, owner = SERIALIZER
    problems = []
    for module in source.modules.values():
        for imported in module.imports:
            if imported.top in UNSAFE_SERIALIZERS:
                problems.append(
                    f"{module.where}:{imported.line}: {imported.top} must not be used; encode with framework.wire"
                )
            if imported.top == library and module.where != owner and not module.name.startswith("tests."):
                problems.append(f"{module.where}:{imported.line}: only {owner} may import {library}; call its codec")
    return problems


def strangers_at_the_top(root: Path) -> list[str]:
    """The top level holds only what everyone must find there, dot-files, and what git ignores."""
    ignore_file = root / ".gitignore"
    ignored = [line.strip("/") for line in ignore_file.read_text().split()] if ignore_file.exists() else []
    return [
        f"{path.name}: does not belong at the top level; find it a room below"
        for path in sorted(root.iterdir())
        if path.name not in TOP_LEVEL
        and not path.name.startswith(".")
        and not any(fnmatch(path.name, pattern) for pattern in ignored)
    ]


def unfinished_operators(source: Source) -> list[str]:
    """Every file in these rooms of `operators` has a docstring, is used by a test, and is named in `docs/reference`."""
    used = {name.lower() for module in source.within("tests") for name in _names_used(module)}
    pages = [*source.root.glob("docs/reference*.md"), *source.root.glob("docs/reference/**/*.md")]
    documented = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    problems = []
    for module in source.within("operators"):
        stem = module.path.stem
        if (
            stem.startswith("_")
            or module.path.parent.relative_to(source.root / "operators").as_posix() not in OPERATORS
        ):
            continue
        if not ast.get_docstring(module.tree):
            problems.append(f"{module.where}:1: has no docstring; say what the operator does, with an example")
        if not any(name == stem or name.startswith(f"{stem}_") for name in used):
            problems.append(f"{module.where}:1: no test uses `{stem}`")
        if not re.search(rf"`[^`\n]*\b{stem}\b", documented, re.IGNORECASE):
            problems.append(f"{module.where}:1: docs/reference does not mention `{stem}`")
    return problems


def logic_in_package_fronts(source: Source) -> list[str]:
    """An `__init__.py` holds a docstring, imports, `__all__` and such; and every package has one."""
    modules = source.within(*PACKAGES)
    folders = sorted({module.path.parent for module in modules})
    missing = [
        f"{folder.relative_to(source.root)}: has modules, but no __init__.py"
        for folder in folders
        if not (folder / "__init__.py").exists()
    ]
    logic = [
        f"{module.where}:{node.lineno}: an __init__.py holds re-exports only; give this a module of its own"
        for module in modules
        if module.path.name == "__init__.py"
        for node in module.tree.body
        if not _is_re_export(node)
    ]
    return missing + logic


def stray_text(root: Path) -> list[str]:
    """No file names a path of one machine, or marks work as left undone."""
    problems = []
    for path in _text_files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{path.relative_to(root)}:{number}"
            if found := MACHINE_PATH.search(line):
                problems.append(f"{where}: {found[0]} exists on one machine only")
            if found := UNFINISHED.search(line):
                problems.append(f"{where}: {found[0]}: do it, or open an issue")
    return problems


def _is_front(module: Module) -> bool:
    """Whether users reach this module by themselves: a package's own `__init__`, a `__main__`, an example."""
    return (
        module.name in (*PACKAGES, *OWN_FRONTS)
        or module.name.startswith("examples.")
        or module.path.name == "__main__.py"
    )


def _commands(root: Path) -> Iterator[str]:
    """The modules that pyproject.toml names as commands."""
    project = root / "pyproject.toml"
    if project.exists():
        scripts = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("scripts", {})
        yield from (target.partition(":")[0] for target in scripts.values())


def _reachable(source: Source, start: Iterable[str]) -> set[str]:
    """The modules that are loaded when those in `start` are, including the `__init__` of each package on the way."""
    seen: set[str] = set()
    waiting = deque(name for name in start if name in source.modules)
    while waiting:
        name = waiting.popleft()
        if name in seen:
            continue
        seen.add(name)
        targets = [imported.target for imported in source.modules[name].imports]
        for target in [name.rpartition(".")[0], *targets]:
            reached = source.resolve(target)
            if reached is not None:
                waiting.append(reached.name)
    return seen


def _reached_by_tests(source: Source) -> list[Module]:
    names = _reachable(source, [module.name for module in source.within("tests")])
    return [source.modules[name] for name in names]


def _names_used(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
    for imported in module.imports:
        yield from imported.target.split(".")


def _is_re_export(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__version__" | "__tracebackhide__")]):
            return True
    return False


def _text_files(root: Path) -> Iterator[Path]:
    suffixes = {".py", ".md", ".toml", ".sh", ".txt", ".html", ".js", ".css", ".yml", ".yaml"}
    for top in sorted(root.iterdir()):
        if top.is_file() and (top.suffix in suffixes or top.name in {"Makefile", ".gitignore"}):
            yield top
        elif top.name == ".ci":
            yield from sorted(path for path in top.rglob("*") if path.is_file())
        elif top.is_dir() and not top.name.startswith("."):
            yield from sorted(path for path in top.rglob("*") if path.is_file() and path.suffix in suffixes)
