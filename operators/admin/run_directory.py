"""`.hailer`: how the `hailer` command finds the jobs that were started in a directory.

Each running job has a folder of its own there, by its name: `job.json` says where its admin endpoint is and which
process supervises it, `token` (mode 0600) is what a request must show. A job that ends leaves only `ended.json`, which
says how it ended to a command that it ended under; the next of its name removes it. What a killed one left behind
makes way for the next, too: its process held the lock of `claim`, which ended with it.

Who can write here could have commands talk to a job of theirs, and be shown what is sent to it. So what is read must be
this user's: the run directory, a job's folder, and the files in it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from framework.file_lock import boot_id, exclusive, is_abandoned, is_held, take
from framework.ownership import exposure, read_private
from framework.suggest import hint
from operators.admin.errors import NoSuchJob, RunDirectoryUnusable

FOLDER = ".hailer"
CLAIM = "claim"
JOB = "job.json"
ENDED = "ended.json"
NAMESAKES_MAX = 100
LOCK_S_MAX = 5.0
"""How long others may take to claim their folders."""
REPORT_CHARS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class RunningJob:
    """Where a job is, as `job.json` says it."""

    name: str
    """As in the run directory: the second job of one name is `name-2`."""
    host: str
    port: int
    pid: int
    run: str
    """What tells it from an earlier or later job in the same folder."""
    started_s: float
    """Seconds since 1970."""
    machine: str = field(default_factory=platform.node)
    network: str = field(default_factory=lambda: _network())
    """Whose loopback interface it listens at: directories may be shared between machines and containers."""


@dataclass(frozen=True, slots=True)
class EndedJob:
    """How a job ended, as `ended.json` says it."""

    run: str
    report: str
    """Empty if it ended well."""
    done: str = ""
    """What it had done then."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """A job's folder in the run directory, as its supervisor holds it."""

    folder: Path
    token: str
    run: str
    """As in `RunningJob`."""
    lock: int
    """The descriptor of `claim`, locked until `release`."""

    @property
    def name(self) -> str:
        """What the job is called here."""
        return self.folder.name

    def publish(self, *, host: str, port: int, started_s: float) -> None:
        """Let the job be found."""
        job = RunningJob(self.name, host, port, os.getpid(), self.run, started_s)
        _write(self.folder / JOB, json.dumps(asdict(job)))

    def tell_end(self, report: str | None, done: str = "") -> None:
        """Let commands know how the job ended: well, having `done` something, or as a report says."""
        ended = EndedJob(self.run, (report or "")[:REPORT_CHARS_MAX], done)
        with suppress(OSError):  # they find it gone, and can say no more
            _write(self.folder / ENDED, json.dumps(asdict(ended)))

    def release(self) -> None:
        """The job has ended."""
        if (self.folder / ENDED).exists():
            for path in self.folder.iterdir():
                if path.name not in (ENDED, CLAIM):
                    path.unlink()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


def claim(directory: Path, job: str) -> JobFolder:
    """Take a folder for `job` in the run directory of `directory`; another living job of that name keeps its own."""
    root, token = directory / FOLDER, secrets.token_urlsafe(32)
    try:
        with _locked(root):
            folder = _vacant(root, _slug(job))
            folder.mkdir(mode=0o700)
            lock = take(folder / CLAIM)
            assert lock is not None, "nobody else knows of this folder"
            _write(folder / "token", token)
    except OSError as error:
        raise RunDirectoryUnusable(f"{root} cannot be written ({error.strerror})") from error
    return JobFolder(folder, token, secrets.token_hex(8), lock)


def running_jobs(directory: Path) -> list[RunningJob]:
    """The jobs that run in a directory, by name."""
    _check_private(directory / FOLDER)
    jobs = [job for path in (directory / FOLDER).glob(f"*/{JOB}") if (job := _read(path)) is not None]
    return sorted((job for job in jobs if is_running(directory, job)), key=lambda job: job.name)


def is_running(directory: Path, job: RunningJob) -> bool:
    """Whether the process that supervises a job of a directory is alive."""
    folder = directory / FOLDER / job.name
    return is_held(folder / CLAIM) and (found := _read(folder / JOB)) is not None and found.run == job.run


def find_job(directory: Path, name: str | None) -> tuple[RunningJob, str]:
    """The job of a directory, the one called `name` if there are several, with its token."""
    jobs = running_jobs(directory)
    names = [job.name for job in jobs]
    listed = ", ".join(names)
    if not jobs:
        raise NoSuchJob(f"no job runs in {directory}; start one with `hailer run JOB.py`, or go to its directory")
    if name is None and len(jobs) > 1:
        raise NoSuchJob(f"{len(jobs)} jobs run in {directory}: {listed}; say which one: --job {names[0]}")
    chosen = [job for job in jobs if name in (None, job.name)]
    if not chosen:
        assert name is not None
        there = "is" if len(jobs) == 1 else "are"
        raise NoSuchJob(f"no job {name!r} runs in {directory}; there {there} {listed}{hint(name, names)}")
    [job] = chosen
    if job.network != _network():
        raise NoSuchJob(
            f"job {job.name!r} runs on {job.machine}, in another machine or container, and is steered from there only"
        )
    try:
        token = directory / FOLDER / job.name / "token"
        _check_private(token)
        return job, read_private(token)
    except FileNotFoundError as error:
        raise NoSuchJob(f"job {job.name!r} has just ended") from error
    except OSError as error:
        raise NoSuchJob(
            f"the token of job {job.name!r} cannot be read ({error.strerror}); "
            f"only the user who started the job may steer it"
        ) from error


def how_it_ended(directory: Path, job: RunningJob) -> EndedJob | None:
    """How a job ended that ran in a directory; None if it has left no word."""
    try:
        ended = EndedJob(**json.loads((directory / FOLDER / job.name / ENDED).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return ended if ended.run == job.run else None


def _vacant(root: Path, name: str) -> Path:
    """A folder for a job: its name, with a number if that is taken by the living. Call with the lock held."""
    for number in range(1, NAMESAKES_MAX + 1):
        folder = root / (name if number == 1 else f"{name}-{number}")
        if not folder.exists():
            return folder
        if is_abandoned(folder / CLAIM):
            shutil.rmtree(folder)
            return folder
    raise RunDirectoryUnusable(f"{NAMESAKES_MAX} jobs called {name!r} run in {root.parent}; end some of them")


def _network() -> str:
    """What tells this system's loopback interface from those of other machines and containers."""
    try:
        return f"{boot_id()} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return platform.node()


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Nobody else claims a folder meanwhile."""
    root.mkdir(mode=0o755, exist_ok=True)
    _check_private(root)
    ignore = root / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")
    try:
        with exclusive(root / "lock", mode=0o666, within_s=LOCK_S_MAX):
            yield
    except TimeoutError as error:
        raise RunDirectoryUnusable(str(error.strerror)) from error


def _write(path: Path, text: str) -> None:
    """Put a whole file in place at once, readable by its owner alone."""
    draft = path.with_name(f"{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.rename(path)


def _check_private(path: Path) -> None:
    """Raise `RunDirectoryUnusable` if others can change what is here."""
    try:
        exposed = exposure(path)
    except OSError:  # it has just gone, or this user may not see it
        return
    if exposed is not None:
        raise RunDirectoryUnusable(
            f"{path} cannot be trusted: {exposed}; if it is yours, close it with `chmod go-w {path}`, else remove it, "
            f"or run the job in a directory of your own"
        )


def _read(path: Path) -> RunningJob | None:
    """What a file says, or None if it has just gone or is no job's; `RunDirectoryUnusable` if others can change it."""
    for trusted in (path.parent, path):
        _check_private(trusted)
    try:
        return RunningJob(**json.loads(read_private(path)))
    except (OSError, ValueError, TypeError):
        return None


def _slug(job: str) -> str:
    return re.sub(r"[^\w.-]+", "-", job).strip(".-") or "job"
