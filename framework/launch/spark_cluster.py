"""What a Spark application is asked before and after processes run in its tasks: room, code, addresses, reasons."""

from __future__ import annotations

import hashlib
import io
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.launch.family import CannotStart
from framework.launch.plane import JobEnds

if TYPE_CHECKING:
    from pyspark import SparkContext

EXECUTORS_S_MAX = 30.0
"""How long the executors of an application that has just begun may take to come."""

FREED_S_MAX = 2.0
"""How long Spark may take to count a slot as free."""

POLL_S = 0.1

PACKAGES = ("framework", "routing", "operators")
NEEDED = ("msgpack", "pyarrow", "rocksdict", "xxhash")
"""What Hailer imports, and cannot ship because it is compiled."""

_MISSING = re.compile(r"No module named '(?P<module>\w+)")
_WHERE = re.compile(r"\(TID \d+\) \((?P<host>\S+) executor (?P<executor>\S+)\)")


def check_room(context: SparkContext, needed: int, *, begins: bool, should_stop: Callable[[], bool]) -> None:
    """Raise `CannotStart` unless so many more tasks can run at once, and one more for Spark's own.

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


def hub_host(context: SparkContext) -> tuple[str, str]:
    """Where a server of the driver binds, and where executors reach it."""
    if is_local(context):
        return "127.0.0.1", "127.0.0.1"
    conf = context.getConf()
    host = conf.get("spark.driver.host", "")
    return conf.get("spark.driver.bindAddress", host), host


def ship(context: SparkContext) -> None:
    """Let executors import Hailer as it is here, whether or not they have one installed."""
    archive = io.BytesIO()
    home = Path(__file__).resolve().parents[2]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(path for package in PACKAGES for path in (home / package).rglob("*.py")):
            file.writestr(zipfile.ZipInfo(str(path.relative_to(home))), path.read_bytes())
    name = f"hailer-{hashlib.sha256(archive.getvalue()).hexdigest()[:16]}.zip"
    if name not in (context._python_includes or ()):  # an application may run several jobs
        path = Path(context._temp_dir) / name
        path.write_bytes(archive.getvalue())
        context.addPyFile(str(path))


def what_failed(error: Exception) -> str:
    """Why a Spark job failed, in one line, and what to do where that is known."""
    text = str(error)
    found = _WHERE.search(f"{text}\n{error.__context__}")  # which is Java's word for it
    where = f" (executor {found['executor']} on {found['host']})" if found else ""
    missing = _MISSING.search(text)
    if missing is None:
        return _reason(text) + where
    module = missing["module"]
    if module in NEEDED:
        remedy = f"install it for their Python, {', '.join(NEEDED)} are needed, or name another with PYSPARK_PYTHON"
    else:
        remedy = f"ship it, with --py-files {module}.py or `addPyFile`"
    return f"executors have no module {module!r}{where}; {remedy}"


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
    """How many tasks do."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


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
