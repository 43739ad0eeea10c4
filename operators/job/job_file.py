"""Finds the job that a Python file defines, for `Job.load` and `hailer run`.

The file is executed as a program that is not `__main__`, so that its `job.main()` does not run. It is not imported as
a module: its name may be that of another one, and the same file may be loaded twice. Its functions keep their globals
alive. Its classes need a module's name all the same, by which the codec finds them on all workers: that of the file,
and for further files of that name, a number, which all processes count alike.
"""

from __future__ import annotations

import runpy
import sys
import sysconfig
import traceback
from collections import Counter
from difflib import get_close_matches
from pathlib import Path

from framework.launch.report import own_frames
from operators.errors import JobFileError
from operators.job.job import Job

FRONT_DOOR = Path(__file__).resolve().parents[2] / "hailer.py"

_loaded: Counter[str] = Counter()
"""How many files of each name were loaded."""


def load_job(path: Path) -> Job:
    """The job that a file defines."""
    if not path.is_file():
        siblings = [str(other) for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        close = get_close_matches(str(path), siblings, 1)
        raise JobFileError(f"there is no file {path}" + (f"; did you mean {close[0]}?" if close else ""))
    sys.path.insert(0, str(path.parent.resolve()))
    _loaded[path.name] += 1
    count = _loaded[path.name]
    try:
        defined = runpy.run_path(str(path), run_name=f"<{path.name}>" if count == 1 else f"<{path.name} {count}>")
    except Exception as error:
        raise JobFileError(f"{path} cannot be loaded: {_reason(error)}") from error
    jobs = {id(value): value for value in defined.values() if isinstance(value, Job)}
    if len(jobs) != 1:
        names = ", ".join(repr(job.name) for job in jobs.values())
        raise JobFileError(
            f"{path} defines {len(jobs)} jobs ({names}); keep one per file"
            if jobs
            else f"{path} defines no job; write `job = Job(...)` and decorate its dataflow with `@job.dataflow`"
        )
    return next(iter(jobs.values()))


def _reason(error: Exception) -> str:
    """Why a file cannot be loaded: the error, and the user's own lines that led there."""
    installed = ("<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), str(FRONT_DOOR))
    frames = [frame for frame in own_frames(error) if not frame.filename.startswith(installed)]
    places = [(frame.filename, frame.lineno, frame.line) for frame in frames]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "?", error.lineno, (error.text or "").strip()))
    lines = [f"  {file}:{line}: {text}" for file, line, text in places]
    return "\n".join([traceback.format_exception_only(error)[-1].rstrip(), *lines])
