"""Loads generated source as modules, from files named after their content: so numba's cache serves other processes and
runs."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from routing.columns.cache_directory import cache_directory
from routing.columns.compiled import CompiledName, caching, load_kernels_named

NAME = r"fold_[0-9a-f]{24}"
_loaded: dict[str, ModuleType] = {}


def is_new(text: str) -> bool:
    """Whether a source has no compiled code here, so that compiling it takes seconds."""
    return not _path(text).exists()


def _path(text: str) -> Path:
    return cache_directory() / f"fold_{hashlib.sha256(_version() + text.encode()).hexdigest()[:24]}.py"


@cache
def _version() -> bytes:
    """A digest of this package, which generated source calls: another version has other files."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))).digest()


def load(text: str) -> ModuleType:
    """The module of a source, from its file, beside which numba caches the compiled code."""
    path = _path(text)
    if path.stem not in _loaded and _read(path) != text:
        write_atomically(path, text)
    return _execute(path, text)


def write_atomically(path: Path, text: str) -> None:
    """Write a file that other processes may read meanwhile."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).replace(path)


def loaded() -> list[str]:
    """The names of the modules that were loaded."""
    return sorted(_loaded)


def load_named(generated: Iterable[str], kernels: Iterable[CompiledName]) -> None:
    """Load what another process has generated and compiled, as far as it is in the cache."""
    for name in generated:
        path = cache_directory() / f"{name}.py"
        if re.fullmatch(NAME, name) and (text := _read(path)) is not None and _path(text) == path:
            _execute(path, text)
    load_kernels_named(kernels)


def _read(path: Path) -> str | None:
    """The text of a file, if it can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _execute(path: Path, text: str) -> ModuleType:
    """The module of this text, which is also in the file: neither that nor bytecode beside it is executed."""
    name = path.stem
    if name in _loaded:
        return _loaded[name]
    spec = importlib.util.spec_from_file_location(f"hailer_{name}", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with caching():
        exec(compile(text, str(path), "exec"), module.__dict__)
    _loaded[name] = module
    return module


def load_kernels() -> None:
    """Load numba, and the kernels that most jobs of columns need, before records wait for them."""
    import pyarrow as pa

    from operators.columns.fold import CompiledFold
    from operators.columns.loop import number_fields
    from operators.columns.rewriting import Rewritten
    from operators.columns.split_words import split_words
    from routing.columns.dictionary import DictionaryEncoder
    from routing.columns.keys import KeyColumns
    from routing.columns.partition import warm_up

    lines = pa.record_batch({"line": pa.array([], pa.string())})
    words = split_words("line")(lines)
    key = KeyColumns.of(words.schema, "word", "a first use")
    warm_up(key)
    DictionaryEncoder.of(key)
    text = "@inlined\ndef fold(key, value, state):\n    return 1, True, (state,), (None,)\n"
    state = number_fields(pa.schema({"total": pa.int64()}), "state")
    fold = Rewritten(text, {0: 0}, outputs_max=1, always_one=True, reads_key=False)
    CompiledFold(fold, key=key, values=[], state=state, initial=[0], output=words.schema)
