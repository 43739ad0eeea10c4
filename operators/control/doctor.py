"""`hailer doctor`: whether this machine and this directory have what jobs need, and what to do where not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from framework.errors import ConfigError
from framework.launch.config import BASE_PORT
from framework.net.certificate import tls_context
from framework.net.secret import default_secret_path, load_or_create_secret
from framework.wire.credentials import HASH_BYTES
from operators.admin.errors import RunDirectoryUnusable
from operators.admin.run_directory import running_jobs
from routing.columns.cache_directory import CACHE_VARIABLE, cache_directory, existing_cache_directory

PYTHON_LEAST = (3, 11)
FILES_LEAST = 1024
"""Each worker has a link to every other, and each store on disk has files."""
JAVA_LEAST = 17
PACKAGES = ("framework", "routing", "operators")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found: `ok`, `note` (something is missing that only some jobs need), or `bad`."""

    mark: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.mark:4}  {self.what}" + (f"; {self.remedy}" if self.remedy else "")


def examine(directory: Path) -> Iterator[Finding]:
    """Every check, one after the other."""
    checks: list[Callable[[], Finding]] = [
        check_python,
        check_dependencies,
        lambda: check_shadows(directory),
        check_java,
        check_cores,
        check_files,
        check_loopback,
        check_base_port,
        check_secret,
        check_encryption,
        check_cache,
        lambda: check_directory(directory),
    ]
    for check in checks:
        yield check()


def check_python() -> Finding:
    """The interpreter's version."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_LEAST:
        return Finding("bad", f"Python {version}", "use {}.{} or newer".format(*PYTHON_LEAST))
    return Finding("ok", f"Python {version} at {sys.executable}")


def check_dependencies() -> Finding:
    """The libraries that Hailer stands on, in the versions that it asks for."""
    found, problems = [], []
    for requirement in importlib.metadata.requires("hailer") or []:
        if "extra ==" in requirement:
            continue
        name, bounds = re.match(r"([\w.-]+)\s*(.*)", requirement).groups()  # type: ignore[union-attr]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} is not installed")
            continue
        found.append(f"{name} {version}")
        if not _within(version, bounds):
            problems.append(f"{name} {version} is not {bounds}")
    if problems:
        return Finding("bad", "packages: " + ", ".join(problems), "install Hailer again with pip")
    return Finding("ok", "packages: " + ", ".join(found))


def check_shadows(directory: Path) -> Finding:
    """Whether Python finds our packages, and not others of the same names."""
    home = Path(__file__).resolve().parents[2]
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        where = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if where != home / name:
            return Finding("bad", f"`import {name}` finds {where}, not Hailer's", f"rename {where}, or remove it")
    if directory.resolve() != home:
        for name in PACKAGES:
            for path in (directory / name, directory / f"{name}.py"):
                if path.exists():
                    return Finding(
                        "bad", f"{path.name} in this directory hides Hailer's package from jobs here", "rename it"
                    )
    return Finding("ok", "Hailer's packages are not shadowed")


def check_java() -> Finding:
    """Java, which Spark needs."""
    found = java()
    return found if found.mark == "ok" else replace(found, remedy=f"only jobs beside Spark need it: {found.remedy}")


def java() -> Finding:
    """The Java that Spark would be started with."""
    need = f"install Java {JAVA_LEAST} and put it on PATH, or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin" if home else None)
    if path is None:
        return Finding("note", f"no Java{' in JAVA_HOME' if home else ''}", need)
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("note", f"{path} does not run ({error})", need)
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        return Finding("note", f"{path} does not tell its version", need)
    if int(version[1]) < JAVA_LEAST:
        return Finding("note", f"Java {version[1]} at {path}", need)
    return Finding("ok", f"Java {version[1]} at {path}")


def check_cores() -> Finding:
    """How many processes can run at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("ok", f"{cores} cores: more worker processes than that share them")


def check_files() -> Finding:
    """How many files and links a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_LEAST:
        return Finding("bad", f"a process may open {soft} files", f"raise it: ulimit -n {min(hard, 65536)}")
    return Finding("ok", f"a process may open {'any number of' if soft == resource.RLIM_INFINITY else soft} files")


def check_loopback() -> Finding:
    """Whether processes of this machine can reach each other."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        return Finding("bad", f"127.0.0.1 cannot be reached ({error})", "bring the loopback interface up")
    return Finding("ok", "processes reach each other at 127.0.0.1")


def check_base_port() -> Finding:
    """The port that processes started by hand begin at."""
    try:
        socket.create_server(("127.0.0.1", BASE_PORT)).close()
    except OSError as error:
        return Finding(
            "note", f"port {BASE_PORT} is taken ({error.strerror})", "processes started with -p need --base-port"
        )
    return Finding("ok", f"port {BASE_PORT} is free for processes started with -p")


def check_secret() -> Finding:
    """The cluster's secret."""
    try:
        path = default_secret_path()
        if not path.exists():
            return Finding("ok", f"no secret yet; the first job on several processes makes {path}")
        load_or_create_secret(path)
    except ConfigError as error:
        return Finding("bad", str(error))
    return Finding("ok", f"the cluster's secret is at {path}")


def check_encryption() -> Finding:
    """Whether connections to other machines can be encrypted."""
    try:
        tls_context(bytes(HASH_BYTES), server_side=True)
    except (ConfigError, OSError) as error:
        return Finding("note", f"only jobs on several machines need this: {error}")
    return Finding("ok", "connections to other machines are encrypted")


def check_cache() -> Finding:
    """Whether code that is compiled for columns is kept."""
    try:
        directory = cache_directory()
    except ConfigError as error:
        return Finding("bad", str(error))
    if directory == existing_cache_directory():
        return Finding("ok", f"code that is compiled for columns is kept in {directory}")
    return Finding(
        "note",
        "compiled code is not kept: this user cannot write to its directory, or others can, or to one on the way there",
        f"take that from them (`chmod go-w`), or set {CACHE_VARIABLE}",
    )


def check_directory(directory: Path) -> Finding:
    """Whether a job that is started here can be found."""
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".hailer-doctor-"):
            pass
    except OSError as error:
        return Finding(
            "bad", f"this directory cannot be written ({error.strerror})", "start jobs in one that can, to steer them"
        )
    try:
        running_jobs(directory)
    except RunDirectoryUnusable as error:
        return Finding("bad", str(error))
    return Finding("ok", "jobs that are started here can be found and steered")


def _within(version: str, bounds: str) -> bool:
    """Whether a version is within bounds such as `<2,>=1.1`; numbers only, which is what our bounds have."""
    have = _numbers(version)
    for bound in filter(None, bounds.split(",")):
        operator, wanted = re.match(r"\s*([<>=!~]+)\s*(.*)", bound).groups()  # type: ignore[union-attr]
        limit = _numbers(wanted)
        if (operator == ">=" and have < limit) or (operator == "<" and have >= limit):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
