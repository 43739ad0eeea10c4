"""Finding the job in a file."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from operators.control.job_control import JobControl


@runtime_checkable
class Runnable(Protocol):
    """What a job file holds: a job that knows how to run from the command line."""

    name: str

    def dataflow(self, build: Any) -> Any:
        """The decorator that names the job's dataflow."""

    def main(self, argv: Sequence[str] | None = None, *, plane: JobControl | None = None) -> None:
        """Run as `argv` says, under the control of `plane`."""


class JobFileError(Exception):
    """A file does not hold one job."""


def load_job(path: Path) -> Runnable:
    """The job that a file defines."""
    if not path.is_file():
        siblings = [str(other) for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        close = get_close_matches(str(path), siblings, 1)
        raise JobFileError(f"there is no file {path}" + (f"; did you mean {close[0]}?" if close else ""))
    sys.path.insert(0, str(path.parent.resolve()))
    found: dict[int, Runnable] = {id(value): value for value in runpy.run_path(str(path)).values() if _is_job(value)}
    if len(found) != 1:
        names = ", ".join(repr(job.name) for job in found.values())
        raise JobFileError(
            f"{path} defines {len(found)} jobs ({names}); keep one per file"
            if found
            else f"{path} defines no job; write `job = Job(...)` and decorate its dataflow with `@job.dataflow`"
        )
    return next(iter(found.values()))


def _is_job(value: object) -> bool:
    return isinstance(value, Runnable) and not isinstance(value, type)
