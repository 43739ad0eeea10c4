"""What may import what: layers, rooms, pure modules, serializers; and what nothing imports.

A check is a function from the source to the places that break it: one line per violation,
`file:line: what is wrong and what to do`; an empty list is a pass.
"""

from __future__ import annotations

import ast
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.tidy.source import FRONT_DOOR, PACKAGES, Module, Source

LAYERS = (*PACKAGES, FRONT_DOOR, "examples", "tests")
"""Each may import from those before it."""

ROOMS = {
    "framework": {
        "errors": "",
        "suggest": "",
        "file_lock": "",
        "ownership": "",
        "error_context": "",
        "membership.members": "",
        "events": "progress membership.members",
        "progress": "errors events membership.members",
        "wire": "errors progress membership.members membership.messages",
        "dataflow": "errors error_context events progress wire membership.members membership.inheritance",
        "membership": "errors events progress wire",
        "worker": "errors events progress wire dataflow membership",
        "net": "errors ownership membership.members wire worker.transport",
        "launch": "errors events membership dataflow worker net wire.credentials",
        "simulation": "errors events progress wire dataflow membership worker",
    },
    "routing": {
        "errors": "",
        "hashing": "",
        "bins": "errors hashing",
        "load": "bins",
        "commands": "bins",
        "routing_table": "bins commands",
        "state": "hashing bins",
        "migration": "errors bins commands load state",
        "router_operator": "errors hashing bins commands load routing_table migration",
        "state_operator": "bins load state migration",
        "registry": "bins load routing_table router_operator state_operator",
        "options": "errors bins router_operator migration state",
        "placement": (
            "hashing bins commands load routing_table migration router_operator state_operator registry options"
        ),
        "columns": "hashing bins load routing_table router_operator state",
    },
    "operators": {
        "errors": "admin.errors control.errors",
        "commands": "",
        "logic": "",
        "plans": "",
        "schema": "errors",
        "stream": "core stateful capture",
        "core": "errors schema stream stateful columns",
        "stateful": "errors stream",
        "capture": "errors stream",
        "input": "errors stream core",
        "columns": "errors schema stream core stateful capture input",
        "admin": "",
        "broker": "errors admin",
        "job": "errors schema stream core stateful input columns broker control.run_job",
        "control": "errors schema stateful.windows.late_count admin columns broker job spark.launch.session",
        "spark": "errors admin broker job control",
    },
}
"""Which rooms each room may import from, beside itself. What is imported for its type only does not count.

`Stream` and its operators need each other. So do `operators.job` and `operators.control` in one place, where a job file
that is run as a program runs itself, and `control` and `spark` where the command starts a job there."""

PURE = {
    "framework": "all but file_lock ownership",
    "framework.dataflow": "all",
    "framework.launch": "liveness merge output_lines",
    "framework.membership": "all",
    "framework.net.shm": "allocator reservation",
    "framework.progress": "all",
    "framework.simulation": "fingerprint network",
    "framework.wire": "all",
    "framework.worker": "all but stepper worker",
    "routing": "all",
    "routing.columns": "adaptive",
    "routing.migration": "all",
    "routing.state": "all but database directory_lock rocks",
    "operators": "commands errors logic plans schema",
    "operators.admin": "errors json_codec",
    "operators.broker": "address budget flow_control intake outbox segments staged_part",
    "operators.capture": "capture event extract",
    "operators.columns": "casts",
    "operators.control": "broker_flags cli_parser errors job_messages page render summary worker_messages",
    "operators.core": "all but concat empty feedback source to_columns to_rows",
    "operators.job": "in_flight json_lines parts schedule",
    "operators.spark": "options schemas",
    "operators.stateful": "all",
    "operators.stateful.windows": "all",
}
"""Modules that decide from arguments alone, by package."""

IMPURE = frozenset(
    "asyncio atexit concurrent ctypes fcntl gc http linecache logging mmap multiprocessing os pathlib queue random "
    "sched secrets select selectors shutil signal socket socketserver ssl subprocess tempfile threading time urllib "
    "uuid".split()
)
IMPURE_EXCEPT = frozenset({"uuid.UUID"})
IMPURE_BUILTINS = frozenset({"open", "print", "input"})

SERIALIZER = ("msgpack", "framework/wire/codec.py")
"""The library that turns rows into bytes, and the only file that may call it."""

UNSAFE_SERIALIZERS = frozenset("cloudpickle dill joblib jsonpickle marshal pickle shelve".split())

OWN_FRONTS = (FRONT_DOOR, "operators.commands", "operators.logic", "operators.plans", "operators.spark")
"""What users import by itself: not every job is to load what it needs."""

TEST_KITS = ("framework.simulation",)
"""Packages that exist to be driven by tests: being imported by a test is enough for them."""


def imports_against_the_layers(source: Source) -> list[str]:
    """Imports point one way: framework ← routing ← operators ← hailer ← examples."""
    return [
        f"{module.where}:{imported.line}: {top} must not import from {imported.top} ({imported.target})"
        for module in source.modules.values()
        for top in [module.name.partition(".")[0]]
        for imported in module.imports
        if imported.top in LAYERS and LAYERS.index(imported.top) > LAYERS.index(top)
    ]


def imports_against_the_rooms(source: Source) -> list[str]:
    """Within a package, a room imports from the rooms that `ROOMS` lists for it."""
    problems = []
    for package, rooms in ROOMS.items():
        for module in source.within(package):
            if module.name == package:
                continue
            room = _room(module.name, package, rooms)
            if room is None:
                problems.append(f"{module.where}:1: belongs to no room; say in ROOMS what it may import")
                continue
            allowed = [f"{package}.{each}" for each in (room, *rooms[room].split())]
            for imported in module.imports:
                reached = source.resolve(imported.target)
                if reached is None or imported.typing_only or imported.top != package or _within(reached.name, allowed):
                    continue
                problems.append(
                    f"{module.where}:{imported.line}: {package}.{room} must not import from {reached.name}; "
                    f"it may from {rooms[room] or 'no other room'}"
                )
    return problems


def impure_imports(source: Source) -> list[str]:
    """Pure modules reach no I/O, clock, thread or random generator, themselves or through what they import."""
    problems = []
    chains = {module.name: module.where for module in source.shipped if is_protected(module)}
    waiting = deque(chains)
    while waiting:
        module = source.modules[waiting.popleft()]
        chain = chains[module.name]
        for reached in _reached_at_run_time(source, module):
            if reached.name not in chains:
                chains[reached.name] = f"{chain} -> {reached.where}"
                waiting.append(reached.name)
        problems += [
            f"{module.where}:{line}: a pure module must not {act}; take what it gives as an argument "
            f"(reached from {chain})"
            for line, act in _impurities(source, module)
        ]
    return problems


def unprotected_pure_modules(source: Source) -> list[str]:
    """Each module that is pure is listed as such, so that it stays so; a package's front need not be."""
    importers: dict[str, list[str]] = {}
    for module in source.shipped:
        for reached in _reached_at_run_time(source, module):
            importers.setdefault(reached.name, []).append(module.name)
    waiting = deque(module.name for module in source.shipped if _impurities(source, module))
    impure = set(waiting)
    while waiting:
        new = set(importers.get(waiting.popleft(), ())) - impure
        impure |= new
        waiting.extend(new)
    return [
        f"{module.where}:1: is pure; list it in PURE, so that it stays so"
        for module in source.shipped
        if module.name not in impure and not module.is_front and not is_protected(module)
    ]


def is_protected(module: Module) -> bool:
    """Whether `PURE` says that a module is pure: "all", "all but these", or "these" of its package."""
    stem = "__init__" if module.is_front else module.name.rpartition(".")[2]
    match PURE.get(module.package, "").split():
        case ["all"]:
            return True
        case ["all", "but", *others]:
            return stem not in others
        case names:
            return stem in names


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
        if module.is_front
        for node in module.tree.body
        if not _is_re_export(node)
    ]
    return missing + logic


def _room(name: str, package: str, rooms: Iterable[str]) -> str | None:
    """The innermost room that a module is in."""
    return max((room for room in rooms if _within(name, [f"{package}.{room}"])), key=len, default=None)


def _within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _reached_at_run_time(source: Source, module: Module) -> Iterator[Module]:
    for imported in module.imports:
        reached = source.resolve(imported.target)
        if reached is not None and not imported.typing_only:
            yield reached


def _impurities(source: Source, module: Module) -> list[tuple[int, str]]:
    """The lines at which a module itself reaches for the world, and what it does there."""
    imports = [
        (imported.line, f"import {imported.target}")
        for imported in module.imports
        if imported.top in IMPURE and imported.target not in IMPURE_EXCEPT and not imported.typing_only
        if source.resolve(imported.target) is None
    ]
    calls = [
        (node.lineno, f"call {node.func.id}()")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS
    ]
    return imports + calls


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


def _is_re_export(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__version__" | "__tracebackhide__")]):
            return True
    return False
