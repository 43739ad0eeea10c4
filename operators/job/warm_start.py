"""Lets a process that is to join a job load what the job has loaded, before it asks to join.

While a joiner builds its dataflow, the next one waits, and what was lent to it holds the frontier of the job. Most of
that time would go into loading compiled code from the cache. So a worker that has built a job of columns notes there,
under a digest of the job's source, what is loaded: the names of our modules, of generated ones, and of kernels, these
with a digest of the types that they are compiled for. Who loads a note looks these up, and skips what is not there.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from importlib import import_module

from operators.job.job import Job
from operators.schema import load_arrow
from routing.columns.cache_directory import cache_directory, existing_cache_directory

OURS = r"(framework|routing|operators)(\.\w+)+"


def note_loaded(job: Job) -> None:
    """Write down what this process has loaded, if that is more than modules."""
    if "operators.columns.module_cache" not in sys.modules:
        return
    from operators.columns import module_cache
    from routing.columns.compiled import loaded_kernels

    modules = sorted(name for name in sys.modules if re.fullmatch(OURS, name))
    note = json.dumps({"modules": modules, "generated": module_cache.loaded(), "kernels": loaded_kernels()})
    path = cache_directory() / _name(job)
    if not path.exists() or path.read_text() != note:
        module_cache.write_atomically(path, note)


def load_noted(job: Job) -> bool:
    """Load what the last worker that built this job had loaded; whether anything is known of that."""
    directory = existing_cache_directory()
    if directory is None or not (directory / _name(job)).exists():
        return False
    from operators.columns import module_cache

    load_arrow()
    note = json.loads((directory / _name(job)).read_text())
    for name in note["modules"]:
        if re.fullmatch(OURS, name):
            with suppress(ImportError):  # of another version
                import_module(name)
    module_cache.load_named(note["generated"], [(module, name, types) for module, name, types in note["kernels"]])
    return True


def _name(job: Job) -> str:
    return f"job_{job.digest()}.json"
