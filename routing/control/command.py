"""The `hailer` command."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Runnable(Protocol):
    """What a job file holds: a job that knows how to run from the command line."""

    name: str

    def dataflow(self, build: Any) -> Any:
        """The decorator that names the job's dataflow."""

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Run as `argv` says."""


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="hailer",
        description="Stateful streaming jobs in Python.",
        epilog="example: hailer run wordcount_job.py -n 2 --input lines=book.txt",
    )
    parser.add_argument("--version", action="version", version=f"hailer {version('hailer')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser(
        "run",
        help="run a job on this machine",
        description="Run the job that a Python file defines; everything behind the file is the job's own.",
        epilog="example: hailer run wordcount_job.py -n 2 --input lines=book.txt; "
        "hailer run wordcount_job.py --help shows the job's flags",
    )
    run.add_argument("file", metavar="JOB.py", help="a file with a Job in it")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="flags of the job")
    flags = parser.parse_args()
    try:
        job = load_job(Path(flags.file))
    except JobFileError as error:
        run.error(str(error))
    sys.argv = [f"hailer run {flags.file}", *flags.arguments]
    job.main()


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
