"""Rewrites a fold, by its syntax tree, into source that numba compiles: it returns numbers, and no keys or lists.

    def count(word, n, total):              def fold(word, n, total):
        total += n                              total += n
        return total, [(word, total)]    →      return 1, True, (as_int64(total),), (None, as_int64(total))

That is: the number of outputs, whether the key keeps a state, the state, and as many outputs as there may be. Where an
output echoes the key there is None: it is taken from the batch.

The source is self-contained: it has the constants that the fold refers to, and the functions that it calls. Hence folds
with the same source are the same, and the compiled code of one can be cached by its source.

Before each statement is a string with the author's line number, for error messages.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import linecache
import math
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from operators.errors import FoldNotCompiled
from operators.stateful.fold import DISCARD

MARK = "line "
NOTHING = {"as_int64": "np.int64(0)", "as_float64": "0.0", "as_bool": "False"}
"""The values of an output that is not there."""

_CONSTANTS = (bool, int, float, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class FoldSource:
    """A function's syntax tree, and where it was written."""

    function: Callable[..., Any]
    file: str
    first_line: int
    tree: ast.FunctionDef

    @staticmethod
    def of(function: Any) -> FoldSource:
        """The source of a function that was written with `def`."""
        name = getattr(function, "__name__", repr(function))
        if not isinstance(function, types.FunctionType) or name == "<lambda>":
            raise FoldNotCompiled(
                f"{_place(function)}{name} is not a function written with `def`, and only such are compiled; write "
                f"one, or use rows"
            )
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError) as error:
            raise FoldNotCompiled(
                f"the source of {name} is not to be found, and cannot be compiled; write it in a file, or use rows"
            ) from error
        module = ast.parse(textwrap.dedent("".join(lines)))
        [tree] = module.body
        assert isinstance(tree, ast.FunctionDef), tree
        return FoldSource(function, inspect.getsourcefile(function) or "?", first, tree)

    def refuse(self, node: ast.AST | int, reason: str) -> FoldNotCompiled:
        """The error that names the line, and the reason."""
        line = node if isinstance(node, int) else getattr(node, "lineno", 1)
        return FoldNotCompiled(
            f"{self.file}:{self.first_line + line - 1}: {self.quoted(line)}\n"
            f"  cannot be compiled: {reason}\n"
            f"  write it otherwise, or let the job use rows here: .to_rows(), then the same fold"
        )

    def quoted(self, line: int) -> str:
        """The author's line, counted from the function's first."""
        lines, _ = inspect.getsourcelines(self.function)
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""


@dataclass(slots=True)
class Rewritten:
    """A fold in the form that compiles."""

    text: str
    echoes: dict[int, int]
    """The output columns that are key columns: their index, and that of the key column."""
    outputs_max: int
    """The most outputs that it returns."""
    always_one: bool
    """Whether it always returns exactly one output."""
    reads_key: bool
    """Whether it uses the key otherwise than to put it into outputs."""


@dataclass(slots=True)
class Rewriter:
    """Rewrites one fold, once."""

    source: FoldSource
    states: Sequence[str]
    """The casts of the state's columns: names of functions."""
    outputs: Sequence[str]
    """The casts of the output columns; empty for one that is not a number."""
    key_size: int
    """The number of key columns."""
    echoes: dict[int, int] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    """Names that are bound to a key column."""
    key_changes: bool = False
    """Whether the name of the key is rebound."""
    counts: set[int] = field(default_factory=set)
    """The numbers of outputs of its return statements."""
    _key: str = ""
    _state: str = ""
    _around: dict[str, Any] = field(default_factory=dict)

    def rewrite(self) -> Rewritten:
        """The source of the fold, and of what it refers to."""
        source = self.source
        tree = copy.deepcopy(source.tree)  # blocks are rewritten in place, and `free_names` reads the author's
        arguments = tree.args
        names = [argument.arg for argument in arguments.args]
        if len(names) != 3 or arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.posonlyargs:
            raise source.refuse(tree, "a fold takes three arguments: key, value, state")
        self._key, _, self._state = names
        self._find_echoes(tree)
        self._around = free_names(source)
        around = source_of_free_names(source)
        self._count(tree)
        body = self._block(tree.body)
        if not self.counts:
            raise source.refuse(tree, "it returns nothing; return the new state and a list of outputs")
        before: list[ast.stmt] = [ast.parse(f"_before = {self._state}").body[0]]
        [function] = ast.parse(f"@inlined\ndef fold({', '.join(names)}): pass").body
        assert isinstance(function, ast.FunctionDef), function
        function.body = before + body
        text = ast.unparse(ast.fix_missing_locations(ast.Module([function], [])))
        return Rewritten(
            around + "\n" + text + "\n",
            dict(self.echoes),
            max(self.counts),
            self.counts == {1},
            self._reads_key(function),
        )

    def _reads_key(self, function: ast.FunctionDef) -> bool:
        taken_apart = [
            node.value for node in ast.walk(function) if isinstance(node, ast.Assign) and self._takes_apart(node)
        ]
        return any(
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and (node.id == self._key or node.id in self.aliases)
            and node not in taken_apart
            for node in ast.walk(function)
        )

    def _takes_apart(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign(targets=[ast.Tuple()], value=ast.Name(id=name)):
                return name == self._key
        return False

    # Statements

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            found.append(ast.Expr(ast.Constant(f"{MARK}{statement.lineno}")))
            found += self._statement(statement)
        return found

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        match statement:
            case ast.Return():
                return self._return(statement)
            case ast.If() | ast.For() | ast.While():
                statement.body = self._block(statement.body)
                statement.orelse = self._block(statement.orelse)
            case ast.FunctionDef() | ast.ClassDef() | ast.With() | ast.Try() | ast.Import() | ast.ImportFrom():
                raise self.source.refuse(statement, f"`{type(statement).__name__.lower()}` has no place in a fold")
            case ast.Global() | ast.Nonlocal():
                raise self.source.refuse(statement, "a fold keeps nothing but its state")
        return [statement]

    def _find_echoes(self, tree: ast.FunctionDef) -> None:
        """Find the names that are bound to key columns: `user, item = key`."""
        for statement in ast.walk(tree):
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Name(id=self._key)):
                    if len(targets) != self.key_size > 1:
                        raise self.source.refuse(statement, f"the key has {self.key_size} columns")
                    for index, target in enumerate(targets):
                        if isinstance(target, ast.Name):
                            self.aliases[target.id] = index
        if self.key_size == 1:
            self.aliases = {self._key: 0}
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
        stored = Counter(node.id for node in names)
        self.key_changes = stored[self._key] > 0
        # A name that is rebound is no alias.
        self.aliases = {name: at for name, at in self.aliases.items() if stored[name] <= (name != self._key)}

    def _echo(self, node: ast.expr) -> int | None:
        match node:
            case ast.Name(id=name) if name in self.aliases:
                return self.aliases[name]
            case ast.Subscript(value=ast.Name(id=self._key), slice=ast.Constant(value=int(index))) if self.key_size > 1:
                if index >= self.key_size:
                    raise self.source.refuse(node, f"the key has {self.key_size} columns")
                return None if self.key_changes else index
        return None

    # What is returned

    def _count(self, tree: ast.FunctionDef) -> None:
        """Count the outputs of each return statement."""
        returned: list[tuple[ast.Return, list[ast.expr]]] = []
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Return):
                for listed in self._lists(statement, self._parts(statement)[1]):
                    self.counts.add(len(listed.elts))
                    returned += [(statement, self._values(statement, element)) for element in listed.elts]
        for _, values in returned:
            for index, value in enumerate(values):
                echo = self._echo(value)
                if echo is not None:
                    self.echoes.setdefault(index, echo)
        for statement, values in returned:
            self._check_echoes(statement, values)

    def _parts(self, statement: ast.Return) -> tuple[ast.expr, ast.expr]:
        match statement.value:
            case ast.Tuple(elts=[state, listed]):
                return state, listed
        raise self.source.refuse(
            statement, "a fold returns two things, the new state and a list of outputs: `return state, [output]`"
        )

    def _lists(self, statement: ast.Return, listed: ast.expr) -> list[ast.List]:
        match listed:
            case ast.List(elts=elements) if not any(isinstance(element, ast.Starred) for element in elements):
                return [listed]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self._lists(statement, body), *self._lists(statement, orelse)]
        raise self.source.refuse(
            statement, "outputs are listed where they are returned: `[]`, `[one]`, or `[one] if condition else []`"
        )

    def _values(self, statement: ast.Return, element: ast.expr) -> list[ast.expr]:
        """The columns of an output, if they are written out as a tuple."""
        if not isinstance(element, ast.Tuple):
            return [element]
        if len(element.elts) != len(self.outputs):
            raise self.source.refuse(
                statement,
                f"an output of {len(element.elts)} values does not fit the {len(self.outputs)} columns of `output`",
            )
        return element.elts

    def _check_echoes(self, statement: ast.Return, values: Sequence[ast.expr]) -> None:
        for index, value in enumerate(values):
            if self._echo(value) is None and not self.outputs[index]:
                raise self.source.refuse(
                    statement,
                    f"column {index} of the output is no number, and compiled code makes numbers; only a part of the "
                    f"key can be put there, as it is",
                )
            if self.echoes.get(index) != self._echo(value):
                raise self.source.refuse(
                    statement, f"column {index} of the output is part of the key in one place, and not in another"
                )

    def _return(self, statement: ast.Return) -> list[ast.stmt]:
        state, listed = self._parts(statement)
        return self._listed(statement, state, listed)

    def _listed(self, statement: ast.Return, state: ast.expr, listed: ast.expr) -> list[ast.stmt]:
        if isinstance(listed, ast.IfExp):
            one, other = (self._listed(statement, state, choice) for choice in (listed.body, listed.orelse))
            return [ast.If(listed.test, one, other)]
        if isinstance(state, ast.IfExp):
            one, other = (self._listed(statement, choice, listed) for choice in (state.body, state.orelse))
            return [ast.If(state.test, one, other)]
        assert isinstance(listed, ast.List), listed
        before: list[str] = []
        outputs = [self._output(number, element, before) for number, element in enumerate(listed.elts)]
        nothing = self._tuple("None" if index in self.echoes else NOTHING[name] for index, name in self._columns())
        outputs += [nothing] * (max(self.counts) - len(outputs))
        keep, kept = self._state_returned(statement, state)
        returned = ", ".join([str(len(listed.elts)), str(keep), kept, *outputs])
        return ast.parse("\n".join([*before, f"return {returned}"])).body

    def _columns(self) -> list[tuple[int, str]]:
        return list(enumerate(self.outputs))

    def _output(self, number: int, element: ast.expr, before: list[str]) -> str:
        """Source of one output's columns; appends to `before` the statements that it needs."""
        if isinstance(element, ast.Tuple):
            texts = [ast.unparse(value) for value in element.elts]
        elif len(self.outputs) == 1:
            texts = [ast.unparse(element)]
        else:
            before.append(f"_output{number} = {ast.unparse(element)}")
            texts = [f"_output{number}[{index}]" for index, _ in self._columns()]
        return self._tuple(
            "None" if index in self.echoes else f"{name}({texts[index]})" for index, name in self._columns()
        )

    @staticmethod
    def _tuple(parts: Iterable[str]) -> str:
        return "(" + "".join(f"{part}, " for part in parts) + ")"

    def _state_returned(self, statement: ast.Return, state: ast.expr) -> tuple[bool, str]:
        """Whether the key keeps a state, and the source of that."""
        if isinstance(state, ast.Name) and self._around.get(state.id) is DISCARD:
            return False, self._cast("_before")
        if isinstance(state, ast.Tuple):
            if len(state.elts) != len(self.states):
                raise self.source.refuse(
                    statement, f"a state of {len(state.elts)} values does not fit the {len(self.states)} of `state`"
                )
            values = zip(self.states, state.elts, strict=True)
            return True, self._tuple(f"{name}({ast.unparse(value)})" for name, value in values)
        return True, self._cast(ast.unparse(state))

    def _cast(self, text: str) -> str:
        if len(self.states) == 1:
            return f"({self.states[0]}({text}),)"
        return "(" + ", ".join(f"{name}(({text})[{index}])" for index, name in enumerate(self.states)) + ",)"


def _place(function: Any) -> str:
    """Where a function without a name was written, if that is known."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return f"{code.co_filename}:{code.co_firstlineno}: {line}\n  "


def free_names(source: FoldSource) -> dict[str, Any]:
    """The values of a function's free names."""
    function = source.function
    assert isinstance(function, types.FunctionType), function
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    around = {**vars(builtins), **function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    names = [node for node in ast.walk(source.tree) if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(source.tree) if isinstance(node, ast.arg)}
    annotations = {id(node) for one in _annotations(source.tree) for node in ast.walk(one)}
    found = {}
    for node in names:
        if node.id in own or id(node) in annotations:
            continue
        if node.id not in around:
            raise source.refuse(node, f"{node.id!r} is not defined")
        found[node.id] = around[node.id]
    return found


def _annotations(tree: ast.FunctionDef) -> list[ast.expr]:
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    return [one for one in (tree.returns, *(argument.annotation for argument in arguments)) if one is not None]


def source_of_free_names(source: FoldSource, seen: dict[str, Any] | None = None) -> str:
    """The source of a function's free names: constants, modules, and functions that are compiled with it."""
    seen = {} if seen is None else seen
    text = ""
    for name, value in sorted(free_names(source).items()):
        if name in seen:
            if seen[name] is not value:
                raise source.refuse(1, f"{name!r} stands for one thing here, and for another in a function called here")
            continue
        seen[name] = value
        if value is DISCARD or getattr(builtins, name, None) is value:
            continue
        if isinstance(value, _CONSTANTS) or _is_constant_tuple(value):
            text += f"{name} = {_constant(value)}\n"
        elif isinstance(value, types.ModuleType) and value.__name__ in ("math", "numpy"):
            text += f"import {value.__name__} as {name}\n"
        elif isinstance(value, types.BuiltinFunctionType) and value.__module__ == "math":
            text += f"from math import {value.__name__} as {name}\n"
        elif isinstance(value, types.FunctionType):
            helper = FoldSource.of(value)
            text += source_of_free_names(helper, seen)
            helper.tree.decorator_list = [ast.Name("inlined", ast.Load())]
            helper.tree.returns = None
            for argument in helper.tree.args.args:
                argument.annotation = None
            helper.tree.name = name
            text += ast.unparse(helper.tree) + "\n"
        else:
            raise source.refuse(
                _line_of(source, name),
                f"{name!r} is a {type(value).__name__}; a fold may refer to numbers, strings, `math`, `numpy`, and "
                f"functions that do the same",
            )
    return text


def _line_of(source: FoldSource, name: str) -> int:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == name:
            return node.lineno
    return 1


def _is_constant_tuple(value: Any) -> bool:
    return type(value) is tuple and all(isinstance(item, _CONSTANTS) or _is_constant_tuple(item) for item in value)


def _constant(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) is tuple:
        return "(" + "".join(f"{_constant(item)}, " for item in value) + ")"
    return repr(value)
