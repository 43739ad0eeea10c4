"""What the `hailer` command prints: from what a job answers, to text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from operators.control.job_messages import (
    Explanation,
    JobStatus,
    OperatorRow,
    PlanStatus,
    ScaleAnswer,
    ScaleState,
    WorkerRow,
    WorkersBlocker,
)
from operators.control.worker_messages import BinTable, BlockerState, Frontier, PlanState

NAME_MAX = 32
VIA_MAX = 12
"""How many operators of a way are named."""


def status_page(status: JobStatus) -> str:
    """Workers, operators, bins and the plan of a job."""
    workers = status.workers
    processes = len({worker.process for worker in workers})
    head = (
        f"{status.job}   {_number(processes, 'process', 'processes')}, {_number(len(workers), 'worker')}   "
        f"running for {duration(status.running_s)}   {_how_far(status.frontier)}"
    )
    parts = [head, _workers(workers)]
    if status.operators:
        parts.append(_operators(status.operators))
    if status.bins:
        parts.append(_bins(status.bins))
    if status.plan is not None:
        parts.append(plan_line(status.plan))
    if status.scale is not None and not status.scale.finished:
        parts.append(scale_line(status.scale))
    silent = [worker.silent for worker in workers if worker.silent]
    if silent:
        parts.append("\n".join(silent))
    return "\n\n".join(parts)


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


def plan_line(plan: PlanState) -> str:
    """How a plan is doing."""
    how = f"{plan.steps_done} of {plan.steps} steps, {plan.bins_moved} of {plan.bins} bins"
    if plan.failure:
        return f"plan {plan.plan} failed after {how}: {plan.failure}"
    if not plan.finished:
        return f"plan {plan.plan}: {how}{', ending' * plan.cancelled}, {duration(plan.duration_s)}"
    return f"plan {plan.plan} {'was cancelled after' if plan.cancelled else 'is complete:'} {how}"


def summary_line(plan: PlanStatus) -> str:
    """What a plan did."""
    parts = [
        f"moved {_number(plan.bins_moved, 'bin')}",
        f"{size(plan.state_bytes)}",
        f"in {duration(plan.duration_s)}",
        f"longest stall {duration(plan.stall_s_max)}",
    ]
    if plan.failure:
        return f"failed: {plan.failure}; {', '.join(parts)}"
    left = plan.bins - plan.bins_moved
    return ", ".join(parts) + (f"; cancelled, {_number(left, 'bin')} stayed" if left else "")


def scale_line(scale: ScaleState) -> str:
    """How a change of processes is doing."""
    return f"{scale.goal}: {_number(scale.bins_moved, 'bin')} moved, {scale.waits_for}"


def scale_summary(scale: ScaleState) -> str:
    """What a change of processes did."""
    parts = [
        f"{_number(len(processes), 'process', 'processes')} {what} ({', '.join(map(str, processes))})"
        for what, processes in (("joined", scale.joined), ("left", scale.left))
        if processes
    ] or ["no process joined or left"]
    parts += [
        f"moved {_number(scale.bins_moved, 'bin')}",
        size(scale.state_bytes),
        f"in {duration(scale.duration_s)}",
        f"longest stall {duration(scale.stall_s_max)}",
    ]
    return (f"failed: {scale.failure}\n" if scale.failure else "") + ", ".join(parts)


def change_line(answer: ScaleAnswer) -> str:
    """What a change of processes would do."""
    if answer.joins:
        return f"{_number(answer.joins, 'process', 'processes')} would join"
    if answer.leaves:
        listed = ", ".join(map(str, answer.leaves))
        return f"{_number(len(answer.leaves), 'process', 'processes')} would leave: {listed}"
    return "nothing to do: there are as many processes"


def show_times(frontier: Frontier) -> str:
    """The least times that may still come.

    >>> from framework.progress.order import Product
    >>> show_times((41,)), show_times((Product(0, 5), Product(1, 0))), show_times(())
    ('41', '(0, 5) (1, 0)', 'done')
    """
    return " ".join(map(repr, frontier)) or "done"


def table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Columns, the first `left` of them flush left.

    >>> print(table([["operator", "records/s"], ["map", "1,200"]]))
    operator  records/s
    map           1,200
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


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


def _workers(workers: Sequence[WorkerRow]) -> str:
    rows = [["worker", "process", "pid", "state", "epoch", "bins", "keys", ""]]
    for worker in workers:
        note = "no answer" if worker.silent else "waits for a slow peer" if worker.congested else ""
        epoch = "?" if worker.frontier is None else show_times(worker.frontier)
        bins, keys = (f"{count:,}" if worker.frontier is not None else "?" for count in (worker.bins, worker.keys))
        who = [str(worker.worker), str(worker.process), str(worker.pid), worker.state]
        rows.append([*who, epoch, bins, keys, note])
    return table(rows)


def _operators(operators: Sequence[OperatorRow]) -> str:
    rows = [["operator", "path", "epoch", "records/s", "busy"]]
    for operator in operators:
        rate, busy = f"{operator.records_per_s:,.0f}", f"{operator.busy:.0%}"
        rows.append([_short(operator.name), operator.path, show_times(operator.frontier), rate, busy])
    return table(rows, left=2)


def _bins(operators: Sequence[BinTable]) -> str:
    rows = [["operator on bins", "bins by worker", "bins", "keys", "moving"]]
    for operator in operators:
        shares = Counter(operator.owners)
        by_worker = "  ".join(f"{worker}: {count}" for worker, count in sorted(shares.items()))
        moving = str(len(operator.pending))
        keys = sum(operator.keys.values())
        rows.append([_short(operator.name), by_worker, str(len(operator.owners)), f"{keys:,}", moving])
    return table(rows, left=2)


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
