"""How a failure is told: what failed, where, when, and the user's own lines of the traceback.

Frames of packages that say `__tracebackhide__ = True` are left out: of this one, and of those that are built on it.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from types import ModuleType

from framework.errors import HailerError, JobAborted, JobStopped, OperatorFailed, PeerLost


def render(error: BaseException, worker: int) -> str:
    """A report of what ended the job on `worker`."""
    match error:
        case JobAborted():
            return str(error)
        case JobStopped():
            return f"job stopped: {error}"
        case OperatorFailed():
            return f"job failed: {error}\n{_cause(error.__cause__ or error)}"
        case PeerLost():
            return f"job failed: {error}"
        case HailerError():
            return f"job failed: on worker {worker}: {error}"
    return f"job failed: the program of worker {worker} raised\n{_cause(error)}"


def worst(errors: list[BaseException]) -> BaseException:
    """Of several workers' errors the one that tells most: a cause rather than an echo of it."""
    return min(errors, key=distance)


def distance(error: BaseException) -> int:
    """How far an error is from the cause: what went wrong here, a request to stop, a peer that went, a peer's word."""
    for distance, kind in enumerate((JobAborted, PeerLost, JobStopped)):
        if isinstance(error, kind):
            return 3 - distance
    return 0


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an error's traceback that are not left out."""
    hidden = tuple(_hidden_directories())
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(hidden)]


def _cause(error: BaseException) -> str:
    lines = [f"  {line}" for line in "".join(traceback.format_exception_only(error)).rstrip().splitlines()]
    last = [] if isinstance(error, HailerError) else traceback.extract_tb(error.__traceback__)[-1:]
    for frame in own_frames(error) or last:
        lines.append(f"    {frame.filename}:{frame.lineno}, in {frame.name}")
        if frame.line:
            lines.append(f"      {frame.line}")
    return "\n".join(lines)


def _hidden_directories() -> Iterator[str]:
    """Where the packages are whose frames are left out."""
    for name, module in sys.modules.copy().items():
        if "." not in name and isinstance(module, ModuleType) and vars(module).get("__tracebackhide__") is True:
            yield from (os.path.join(directory, "") for directory in module.__path__)
