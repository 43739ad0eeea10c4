"""What the `hailer` command prints: from what a job answers, to text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from framework.launch.liveness import UNSTEPPED_S
from operators.control.job_messages import (
    Answer,
    ChangeState,
    Explanation,
    JobStatus,
    OperatorRow,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.page import TextTable, layout, wrapped
from operators.control.worker_messages import BinTable, BlockerState, Fed, Frontier, LateRecords

NAME_MAX = 32
RATE_S_MIN = 1.0
"""A job that takes less has mostly been starting."""
LINE_MAX = 200
"""How long a line may be that goes to no terminal."""
VIA_MAX = 12
"""How many operators of a way are named."""


def status_page(status: JobStatus, columns: int | None = None, lines: int | None = None) -> str:
    """Workers, operators, bins of a job, and what is under way, on a terminal of this size if it is one."""
    workers = status.workers
    processes = len({worker.process for worker in workers})
    head = [
        status.job,
        f"{_number(processes, 'process', 'processes')}, {_number(len(workers), 'worker')}",
        f"running for {duration(status.running_s)}",
        _how_far(status.frontier),
    ]
    parts: list[str | TextTable] = [wrapped(head, columns), _workers(workers)]
    if status.operators:
        parts.append(_operators(status.operators))
    if status.bins:
        parts.append(_bins(status.bins))
    if status.held is not None:
        parts.append(f"nothing is taken in: {status.held}")
    if late := [_late(one) for one in status.late if one.late]:
        parts.append("\n".join(late))
    under_way = [change for change in (status.moving, status.scale) if change is not None and not change.finished]
    parts += [change_line(change, columns or LINE_MAX) for change in under_way]
    if stuck := [_stuck(worker) for worker in workers if worker.silent or worker.unstepped_s >= UNSTEPPED_S]:
        parts.append("\n".join(stuck))
    return layout(parts, columns, lines)


def explain_page(answer: Explanation) -> str:
    """What holds a frontier back."""
    name = f"{answer.name!r} ({answer.path})"
    silent = list(answer.silent.values())
    if not answer.frontier:
        return "\n".join([f"{name} is complete: nothing can come to it any more", *silent])
    lines = [f"{name} waits at {_times(answer.frontier)}"]
    if answer.under_way:
        lines.append(
            "none that answered holds what it waits for, so it is with a worker that did not answer, or on its way"
            if silent
            else "no worker holds what it waits for: it is on its way, or the job moves on while it is asked"
        )
        lines += [line for blocker in answer.under_way for line in _blocker(blocker)]
    else:
        lines += [line for blocker in answer.held for line in _blocker(blocker)]
    return "\n".join([*lines, *silent])


BAR = 10
"""How many characters a bar takes."""


def change_line(change: ChangeState, width: int) -> str:
    """How a change is doing, in a line that fits: what matters less goes first."""
    parts = [(0, change.text)]
    if change.bins and not change.finished:
        done = BAR * change.bins_moved // change.bins
        parts += [
            (2, f"[{'#' * done}{'.' * (BAR - done)}]"),
            (1, f"{change.bins_moved:,} of {_number(change.bins, 'bin')}"),
            (3, size(change.state_bytes)),
            (4, f"longest stall {duration(change.stall_s_max)}"),
        ]
    else:
        parts += [(1, change.failure or "is done" if change.finished else change.waits_for)]
    for most in range(4, -1, -1):
        line = "  ".join(text for matters, text in parts if matters <= most)
        if len(line) < width:
            return line
    return line[: max(0, width - 1)]


def change_summary(change: ChangeState) -> str:
    """What a change did."""
    parts = [
        f"{_number(len(processes), 'process', 'processes')} {what} ({', '.join(map(str, processes))})"
        for what, processes in (("joined", change.joined), ("left", change.left))
        if processes
    ]
    if change.failure and not (parts or change.bins):
        return f"failed: {change.failure}"
    if not (change.bins or change.failure or change.cancelled):
        return ", ".join(parts) if parts else "nothing to move: every bin is where it should be"
    parts += [
        f"moved {_number(change.bins_moved, 'bin')}",
        size(change.state_bytes),
        f"in {duration(change.duration_s)}",
        f"longest stall {duration(change.stall_s_max)}",
    ]
    left = change.bins - change.bins_moved
    stayed = f"; cancelled, {_number(left, 'bin')} stayed" if change.cancelled else ""
    return (f"failed: {change.failure}\n" if change.failure else "") + ", ".join(parts) + stayed


def answer_lines(answer: Answer) -> str:
    """What a change would do."""
    lines = []
    if answer.joins:
        lines.append(f"{_number(answer.joins, 'process', 'processes')} would join")
    if answer.leaves:
        listed = ", ".join(map(str, answer.leaves))
        lines.append(f"{_number(len(answer.leaves), 'process', 'processes')} would leave: {listed}")
    plans = {group: plan for group, plan in (answer.plans or {}).items() if plan.bins}
    for group, plan in plans.items():
        lines += [f"group {group}:"] if len(plans) > 1 else []
        lines.append(str(plan))
    if not lines:
        return "nothing to move" if answer.plans is not None else "nothing to do: there are as many processes"
    return "\n".join(lines)


def unmoved_lines(answer: Answer) -> str:
    """What a change does not help, if anything."""
    if not answer.unmoved:
        return ""
    names = ", ".join(map(repr, answer.unmoved))
    one = len(answer.unmoved) == 1
    return (
        f"{names} {'keeps its' if one else 'keep their'} keys on the workers that the job began with, and "
        f"{'gains' if one else 'gain'} nothing from more; put {'it' if one else 'them'} on bins"
    )


def end_line(job: str, seconds: float, fed: Fed) -> str:
    """What a job has done that has ended well.

    >>> end_line("counts", 3.2, Fed(20, 529_040)), end_line("ticks", 0.2, Fed(0, 0))
    ('counts ended after 3.2 s: 20 epochs, 529,040 records, 165,325 records/s', 'ticks ended after 200 ms')
    """
    ended = f"{job} ended after {duration(seconds)}"
    if not fed.records:
        return ended
    rate = f", {fed.records / seconds:,.0f} records/s" if seconds >= RATE_S_MIN else ""
    return f"{ended}: {_number(fed.epochs, 'epoch')}, {_number(fed.records, 'record')}{rate}"


def show_times(frontier: Frontier) -> str:
    """The least times that may still come.

    >>> from framework.progress.order import Product
    >>> show_times((41,)), show_times((Product(0, 5), Product(1, 0))), show_times(())
    ('41', '(0, 5) (1, 0)', 'done')
    """
    return " ".join(map(repr, frontier)) or "done"


def duration(seconds: float) -> str:
    """A length of time for people.

    >>> duration(0.0042), duration(3.14), duration(75), duration(7384)
    ('4 ms', '3.1 s', '1 min 15 s', '2 h 3 min')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(0), size(2048), size(3 * 1024**3)
    ('0 bytes', '2.0 KiB', '3.0 GiB')
    """
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def _how_far(frontier: Frontier) -> str:
    return f"complete before epoch {show_times(frontier)}" if frontier else "complete"


def _times(frontier: Frontier) -> str:
    return ("epoch " if all(isinstance(time, int) for time in frontier) else "") + show_times(frontier)


def _workers(workers: Sequence[WorkerRow]) -> TextTable:
    head = ["worker", "process", "pid", "state", "epoch", "bins", "keys", ""]
    rows = []
    for worker in workers:
        unstepped = f"no step for {duration(worker.unstepped_s)}" if worker.unstepped_s >= UNSTEPPED_S else ""
        note = unstepped or ("no answer" if worker.silent else "waits for a slow peer" if worker.congested else "")
        epoch = "?" if worker.frontier is None else show_times(worker.frontier)
        bins, keys = (f"{count:,}" if worker.frontier is not None else "?" for count in (worker.bins, worker.keys))
        who = [str(worker.worker), str(worker.process), str(worker.pid), worker.state]
        rows.append([*who, epoch, bins, keys, note])
    unusual = [bool(worker.silent or worker.congested or worker.state != "member") for worker in workers]
    return TextTable(head, rows, spare=["pid", "process", "bins"], weights=unusual)


def _stuck(worker: WorkerRow) -> str:
    """Why a worker does not answer, or that it does not step; and where it is."""
    unstepped = f"worker {worker.worker} has not stepped for {duration(worker.unstepped_s)}"
    text = unstepped if worker.unstepped_s >= UNSTEPPED_S or worker.silent is None else worker.silent
    innermost = [line.strip() for line in worker.stack if not line.startswith(" ")][-1:]
    source = [line.strip() for line in worker.stack[-1:] if line.startswith(" ")]
    return ": ".join([f"{text}; it is in {innermost[0]}", *source]) if innermost else text


def _operators(operators: Sequence[OperatorRow]) -> TextTable:
    rows = []
    for operator in operators:
        rate, busy = f"{operator.records_per_s:,.0f}", f"{operator.busy:.0%}"
        rows.append([_short(operator.name), operator.path, show_times(operator.frontier), rate, busy])
    head = ["operator", "path", "epoch", "records/s", "busy"]
    return TextTable(head, rows, left=2, spare=["path"], weights=[operator.busy for operator in operators])


def _bins(operators: Sequence[BinTable]) -> TextTable:
    rows = []
    for operator in operators:
        shares = Counter(operator.owners)
        by_worker = "  ".join(f"{worker}: {count}" for worker, count in sorted(shares.items()))
        moving = str(len(operator.pending))
        keys = sum(operator.keys.values())
        rows.append([_short(operator.name), by_worker, str(len(operator.owners)), f"{keys:,}", moving])
    return TextTable(["operator on bins", "bins by worker", "bins", "keys", "moving"], rows, left=2, spare=["bins"])


def _late(one: LateRecords) -> str:
    return f"{one.late:,} of {one.records:,} records were late for {one.name!r} ({one.path})"


def _blocker(blocker: BlockerState) -> list[str]:
    who = f"worker {blocker.worker} " if isinstance(blocker, WorkersBlocker) else ""
    time, at = blocker.time, f"{blocker.name!r} ({blocker.path})"
    if blocker.kind == "capability":
        many = "a capability" if blocker.count == 1 else f"{blocker.count} capabilities"
        line = f"  {who}{'holds ' if who else ''}{many} for {time!r} at output {blocker.port} of {at}"
    else:
        has = "has " if who else ""
        line = f"  {who}{has}{_number(blocker.count, 'record')} at {time!r} before input {blocker.port} of {at}"
    via = blocker.via
    shown = [*via[: VIA_MAX // 2], "…", *via[-VIA_MAX // 2 :]] if len(via) > VIA_MAX else via
    return [line, f"    {' → '.join(shown)}"] if len(shown) > 1 else [line]


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
