"""What a Spark application is asked before and after processes run in its tasks: room, code, addresses, reasons."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import re
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import framework
from framework.errors import CannotStart, JobEnds

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")

EXECUTORS_S_MAX = 60.0
"""How long the executors of an application that has just begun may take to come."""

FREED_S_MAX = 2.0
"""How long Spark may take to count a slot as free."""

POLL_S = 0.1

SHIPPED = ("hailer.py", "framework/**/*.py", "routing/**/*.py", "operators/**/*.py")
"""Our own code, from the directory that holds `framework`."""

NEEDED = ("cryptography", "msgpack", "numba", "numpy", "pyarrow", "rocksdict", "xxhash")
"""What Hailer imports, and cannot ship because it is compiled."""

_MISSING = re.compile(r"No module named '(?P<module>\w+)")


def check_room(context: SparkContext, needed: int, *, begins: bool, should_stop: Callable[[], bool]) -> None:
    """Raise `CannotStart` unless `needed` more tasks can run at once, and one for Spark's own.

    An application that `begins` is given time to get its executors. One that allocates them on demand gets them once
    tasks wait, so it is not asked.
    """
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    wait_s = EXECUTORS_S_MAX if begins and not is_local(context) else FREED_S_MAX
    deadline_s = time.monotonic() + wait_s
    while (room := _slots(context) - _running(context)) <= needed:
        if should_stop():
            raise JobEnds("the job is about to end, and no process can start any more")
        if time.monotonic() > deadline_s:
            raise CannotStart(_no_room(context, needed, room))
        time.sleep(POLL_S)


def is_local(context: SparkContext) -> bool:
    """Whether all executors are on this machine."""
    return str(context.master).startswith("local")


def gateway_host(context: SparkContext) -> tuple[str, str]:
    """Where a server of the driver binds, and where executors reach it."""
    if is_local(context):
        return "127.0.0.1", "127.0.0.1"
    conf = context.getConf()
    host = conf.get("spark.driver.host", "")
    return conf.get("spark.driver.bindAddress", host), host


def ship(context: SparkContext) -> None:
    """Let executors import Hailer as it is here, whether or not they have one installed."""
    archive = source_archive()
    name = f"hailer-{hashlib.sha256(archive).hexdigest()[:16]}.zip"
    if name not in (context._python_includes or ()):  # an application may run several jobs
        path = Path(context._temp_dir) / name
        path.write_bytes(archive)
        context.addPyFile(str(path))


def shippable(values: Mapping[str, T]) -> dict[str, T]:
    """Those that Spark can send to executors. A class of the driver's program may refer to what stays there."""
    from pyspark.serializers import CloudPickleSerializer

    serializer, sent = CloudPickleSerializer(), dict[str, T]()  # type: ignore[no-untyped-call]
    for name, value in values.items():
        with suppress(Exception):  # whatever its parts raise; the job fails only if it sends such a value
            serializer.dumps(value)  # type: ignore[no-untyped-call]
            sent[name] = value
    return sent


def source_archive() -> bytes:
    """Our own code as a zip file, the same bytes for the same code."""
    archive = io.BytesIO()
    home = Path(framework.__file__).resolve().parents[1]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(path for pattern in SHIPPED for path in home.glob(pattern)):
            file.writestr(zipfile.ZipInfo(str(path.relative_to(home))), path.read_bytes())
    return archive.getvalue()


def what_failed(error: Exception, where: str) -> str:
    """Why the task of a Spark job failed there, in one line, and what to do where that is known.

    >>> what_failed(Exception("ModuleNotFoundError: No module named 'msgpack'"), "executor 1 on 10.0.0.7")
    "executor 1 on 10.0.0.7 has no module 'msgpack'; Hailer needs cryptography, msgpack, numba, numpy, pyarrow, \
rocksdict and xxhash there: install them for its Python, name another with PYSPARK_PYTHON, or send an environment that \
has them with spark.archives, as venv-pack makes it"
    """
    text = str(error)
    missing = _MISSING.search(text)
    if missing is None:
        return f"{_reason(text)} ({where})"
    module = missing["module"]
    if module not in NEEDED and (file := _pure_file(module)) is not None:
        return f"{where} has no module {module!r}; ship it, with --py-files {file} or `addPyFile`"
    needs = f"Hailer needs {', '.join(NEEDED[:-1])} and {NEEDED[-1]} there: " if module in NEEDED else ""
    them = "them" if needs else "it"
    return (
        f"{where} has no module {module!r}; {needs}install {them} for its Python, name another with PYSPARK_PYTHON, or "
        f"send an environment that has {them} with spark.archives, as venv-pack makes it"
    )


def where_it_ran(context: SparkContext, group: str) -> str:
    """Which executor ran the last task of a job group, and where."""
    with suppress(Exception):  # Spark's word for this is its own business, and what went wrong is told without it
        tracker = context.statusTracker()
        infos = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        for stage in [stage for info in infos if info is not None for stage in info.stageIds]:
            task = context._jsc.sc().statusStore().taskList(stage, 0, 1_000).last()
            return f"executor {task.executorId()} on {task.host()}"
    return "an executor"


def _pure_file(module: str) -> str | None:
    """The file that a module can be shipped as; None if it is compiled, in part at least."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # one that a program has made up
        spec = None
    if spec is None:
        return f"{module}.py"
    if spec.submodule_search_locations is not None:
        files = [file for where in spec.submodule_search_locations for file in Path(where).rglob("*")]
        return None if any(map(_is_compiled, files)) else f"{module}.zip"
    return None if spec.origin is None or _is_compiled(Path(spec.origin)) else f"{module}.py"


def _is_compiled(file: Path) -> bool:
    return file.name.endswith(tuple(EXTENSION_SUFFIXES))


def _reason(text: str) -> str:
    """The error at the end of a Python traceback within a Java one, or else how the text begins."""
    python = text.partition("Traceback (most recent call last):")[2].partition("\n\tat ")[0]
    errors = [line for line in python.splitlines() if line and not line[0].isspace()]
    return errors[-1] if errors else text.strip().partition("\n")[0]


def _slots(context: SparkContext) -> int:
    """How many tasks can run at once."""
    spark = context._jsc.sc()
    return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))


def _running(context: SparkContext) -> int:
    """How many tasks do. Spark may count the first task of a stage as running only after seconds."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(max(1, stage.numActiveTasks) for stage in stages if stage is not None)


def _no_room(context: SparkContext, needed: int, room: int) -> str:
    processes = f"{needed} process{'es' * (needed != 1)}"
    slots = _slots(context)
    if is_local(context):
        more = f"--master local[{needed + 1 + slots - room}]"
    else:
        more = "more executors or cores for this application"
    return (
        f"Spark has no room for {processes}: of its {slots} slots {slots - room} are in use, and one has to stay free "
        f"for its own tasks; use {more}, or fewer processes"
    )
