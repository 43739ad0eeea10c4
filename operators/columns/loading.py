"""Generated source, kept in files: what the compiler made of it is there the next time, and for other processes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from routing.columns.compiled import cache_directory, caching

_loaded: dict[str, ModuleType] = {}


def load(text: str) -> ModuleType:
    """The module with this source, kept in a file, beside which the compiler keeps what it made of it."""
    name = f"fold_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if name in _loaded:
        return _loaded[name]
    path = cache_directory() / f"{name}.py"
    if not path.exists():
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    spec = importlib.util.spec_from_file_location(f"hailer_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with caching():
        spec.loader.exec_module(module)
    _loaded[name] = module
    return module
