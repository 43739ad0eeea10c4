"""How a failure is told: what failed, where, when, and the user's own lines of the traceback or the stack.

Frames of packages that say `__tracebackhide__ = True` are left out: of this one, and of those that are built on it.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, ModuleType

from framework.errors import HailerError, JobAborted, JobStopped, OperatorFailed, PeerLost
from framework.launch.liveness import Unstepped

FRAMES_MAX = 8
"""How many frames of a stack are shown, the innermost ones."""
LINE_MAX = 160


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
    return _own(traceback.extract_tb(error.__traceback__))


def stack_lines(innermost: FrameType, runner: CodeType) -> tuple[str, ...]:
    """Where a thread is, from the outside in, within the function that has the code `runner`."""
    frames: list[FrameType] = []
    frame: FrameType | None = innermost
    while frame is not None and frame.f_code is not runner:
        frames.append(frame)
        frame = frame.f_back
    stack = traceback.StackSummary.extract((each, each.f_lineno) for each in reversed(frames))
    shown = (_own(stack) or stack[-1:])[-FRAMES_MAX:]
    return tuple(line if len(line) <= LINE_MAX else f"{line[: LINE_MAX - 1]}…" for line in _lines_of(shown))


def render_silent(process: str, for_s: float, now_s: float) -> str:
    """A report of a process that is lost. `now_s`: seconds since the epoch."""
    since = time.strftime("%H:%M:%S", time.localtime(now_s - for_s))
    return (
        f"{process} is lost: silent since {since}, for {for_s:.0f} s, without a heartbeat and without any CPU time. "
        f"Something has stopped it (SIGSTOP, a debugger, a pause of its container), or it is deadlocked in a call that "
        f"keeps Python's interpreter lock. It has been killed, since the others would wait for it for ever; start the "
        f"job again, with a longer --heartbeat-timeout if the pause was meant"
    )


def render_unstepped(found: Unstepped) -> str:
    """Where a worker is that has not stepped for long."""
    text = f"worker {found.worker} has not stepped for {found.for_s:.0f} s"
    if not found.beats:
        text += ", and its process sends no heartbeat: it is in a call that keeps Python's interpreter lock"
    if not found.stack:
        return text
    return "\n".join(
        [f"{text}; it {'is' if found.beats else 'was last seen'} in", *(f"  {one}" for one in found.stack)]
    )


def _cause(error: BaseException) -> str:
    lines = [f"  {line}" for line in "".join(traceback.format_exception_only(error)).rstrip().splitlines()]
    last = [] if isinstance(error, HailerError) else traceback.extract_tb(error.__traceback__)[-1:]
    lines += [f"    {line}" for line in _lines_of(own_frames(error) or last)]
    return "\n".join(lines)


def _lines_of(frames: Sequence[traceback.FrameSummary]) -> Iterator[str]:
    for frame in frames:
        yield f"{frame.filename}:{frame.lineno}, in {frame.name}"
        if frame.line:
            yield f"  {frame.line}"


def _own(frames: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    hidden = tuple(_hidden_directories())
    return [frame for frame in frames if not frame.filename.startswith(hidden)]


def _hidden_directories() -> Iterator[str]:
    """Where the packages are whose frames are left out."""
    for name, module in sys.modules.copy().items():
        if "." not in name and isinstance(module, ModuleType) and vars(module).get("__tracebackhide__") is True:
            yield from (os.path.join(directory, "") for directory in module.__path__)
