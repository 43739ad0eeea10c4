"""Finds the job that a Python file defines, for `Job.load` and `hailer run`.

The file is executed as a program that is not `__main__`, so that its `job.main()` does not run. It is not imported as
a module: its name may be that of another one, and the same file may be loaded twice. Its functions keep their globals
alive.
"""

from __future__ import annotations

import runpy
import sys
from difflib import get_close_matches
from pathlib import Path

from operators.errors import JobFileError
from operators.job.job import Job


def load_job(path: Path) -> Job:
    """The job that a file defines."""
    if not path.is_file():
        siblings = [str(other) for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        close = get_close_matches(str(path), siblings, 1)
        raise JobFileError(f"there is no file {path}" + (f"; did you mean {close[0]}?" if close else ""))
    sys.path.insert(0, str(path.parent.resolve()))
    defined = runpy.run_path(str(path))
    jobs = {id(value): value for value in defined.values() if isinstance(value, Job)}
    if len(jobs) != 1:
        names = ", ".join(repr(job.name) for job in jobs.values())
        raise JobFileError(
            f"{path} defines {len(jobs)} jobs ({names}); keep one per file"
            if jobs
            else f"{path} defines no job; write `job = Job(...)` and decorate its dataflow with `@job.dataflow`"
        )
    return next(iter(jobs.values()))
