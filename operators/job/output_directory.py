"""The directory of an output: whose it is, what lies there while it is written, and what says how far it is complete.

::

    DIR/part-0-52-w0.jsonl       finished: the records of epochs 0 to 52 that worker 0 had
    DIR/_SUCCESS                 the job has ended, and all is there
    DIR/_hailer/complete.json    job, run, the last epoch that is complete, and the files up to it; replaced whole
    DIR/_hailer/lock             locked by the process that feeds the job, while it runs
    DIR/_hailer/*.unfinished     parts that are being written

Readers of directories (Spark, DuckDB's and pandas' globs) pass over what begins with an underscore, or does not end in
`.jsonl`.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from framework.errors import ConfigError
from framework.file_lock import holder, is_held, take
from operators.errors import OutputFailed
from operators.job.parts import Completion, PartName

OURS = "_hailer"
COMPLETE = "complete.json"
LOCK = "lock"
SUCCESS = "_SUCCESS"
UNFINISHED = ".unfinished"
BUFFER_BYTES = 256 * 1024


def check_free(output: str, path: Path, *, overwrite: bool) -> None:
    """Raise `ConfigError` if an output must not go to a directory: it has results, or is none, or is being written."""
    where = f"output {output!r}: {path}"
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{where} is a file; name a directory, which gets files of JSON lines")
    if not path.exists():
        return
    lock = path / OURS / LOCK
    if is_held(lock):
        writer = holder(lock) or "another process"
        raise ConfigError(f"{where} is being written by {writer}; let that job end, or name another directory")
    _check_results(where, path, overwrite=overwrite)


def _check_results(where: str, path: Path, *, overwrite: bool) -> None:
    names = sorted(entry.name for entry in path.iterdir())
    parts = [name for name in names if PartName.is_one(name)]
    others = [name for name in names if name not in (*parts, OURS, SUCCESS) and not name.startswith(".")]
    if others:
        raise ConfigError(
            f"{where} has files that are no results of Hailer, such as {others[0]}; name another directory"
        )
    if not overwrite and (parts or SUCCESS in names):
        raise ConfigError(f"{where} has the results of {_run_of(path)}; name another directory, or say --overwrite")


def _run_of(path: Path) -> str:
    """Whose results a directory has, as `complete.json` says it."""
    try:
        found = json.loads((path / OURS / COMPLETE).read_text(encoding="utf-8"))
        job, run, complete = found["job"], found["run"], found["complete"]
    except (OSError, ValueError, KeyError, TypeError):
        return "another job"
    return f"job {job!r}, run {run}" + ("" if complete is None else f", complete up to epoch {complete}")


@dataclass(frozen=True, slots=True)
class _Writing:
    output: str
    path: str | Path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise OutputFailed(f"output {self.output!r} cannot write {self.path}: {error.strerror or error}") from error


@dataclass(slots=True)
class OutputDirectory:
    """The directory of one output, as one worker uses it."""

    output: str
    path: Path
    job: str
    overwrite: bool = False
    """Whether the results of an earlier run make way."""
    _run: str = ""
    _lock: int | None = None
    _entered: bool = False
    _opened: int = 0

    def claim(self) -> None:
        """Lock the directory for this run, on the worker that feeds the job, before anything runs."""
        if not self._claim(overwrite=self.overwrite):
            check_free(self.output, self.path, overwrite=self.overwrite)
            raise ConfigError(f"output {self.output!r}: {self.path} is being written by another job")

    def open_unfinished(self, worker: int) -> BinaryIO:
        """A new part, under a name that no reader takes."""
        if not self._entered:
            # Nothing comes here before the run's claim is made. A directory that nobody has locked is on another disk.
            self._claim(overwrite=False)
        self._opened += 1
        path = self.path / OURS / f"w{worker}-{self._opened}{UNFINISHED}"
        with self.writing(path):
            return path.open("xb", buffering=BUFFER_BYTES)

    def show(self, file: BinaryIO, name: PartName) -> None:
        """Let a part that is finished be read."""
        with self.writing(file.name):
            file.close()
            os.rename(file.name, self.path / str(name))

    def discard(self, file: BinaryIO) -> None:
        """Remove a part that will not be finished: the disk may be full of it."""
        with suppress(OSError):
            os.unlink(file.name)
        with suppress(OSError):
            file.close()

    def publish(self, completion: Completion, *, ended: bool = False) -> None:
        """Say how far the output is complete, on the worker that has claimed it."""
        self._replace(
            {
                "job": self.job,
                "output": self.output,
                "run": self._run,
                "complete": completion.complete,
                "ended": ended,
                "files": [str(name) for name in completion.files],
            }
        )
        if ended:
            with self.writing(self.path / SUCCESS):
                (self.path / SUCCESS).touch()

    def release(self) -> None:
        """Let others have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def writing(self, path: str | Path) -> _Writing:
        """A block that says which output and which file it was, if the system cannot write."""
        return _Writing(self.output, path)

    def _claim(self, *, overwrite: bool) -> bool:
        """Lock the directory and clear it, unless somebody has; whether it is this worker's now."""
        self._entered = True
        ours = self.path / OURS
        with self.writing(ours):
            ours.mkdir(parents=True, exist_ok=True)
            self._lock = take(ours / LOCK)
            if self._lock is None:
                return False
            try:
                _check_results(f"output {self.output!r}: {self.path}", self.path, overwrite=overwrite)
            except ConfigError:
                self.release()
                raise
            self._run = secrets.token_hex(8)
            with suppress(FileNotFoundError):
                (self.path / SUCCESS).unlink()
            self.publish(Completion())
            for path in [*self.path.glob("part-*"), *ours.glob(f"*{UNFINISHED}")]:
                if PartName.is_one(path.name) or path.parent == ours:
                    path.unlink()
        return True

    def _replace(self, content: dict[str, Any]) -> None:
        path = self.path / OURS / COMPLETE
        new = path.with_suffix(".new")
        with self.writing(path):
            new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            os.replace(new, path)
