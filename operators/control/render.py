"""What the `hailer` command prints: from the JSON that a job answers with, to text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from operators.control.times import from_json, show

NAME_MAX = 32
VIA_MAX = 12
"""How many operators of a way are named."""


def status_page(status: dict[str, Any]) -> str:
    """Workers, operators, bins and the plan of a job."""
    workers = status["workers"]
    processes = len({worker["process"] for worker in workers})
    head = (
        f"{status['job']}   {_number(processes, 'process', 'processes')}, {_number(len(workers), 'worker')}   "
        f"running for {duration(status['running_s'])}   {_how_far(status['frontier'])}"
    )
    parts = [head, _workers(workers)]
    if status["operators"]:
        parts.append(_operators(status["operators"]))
    if status["bins"]:
        parts.append(_bins(status["bins"]))
    if status["plan"] is not None:
        parts.append(plan_line(status["plan"]))
    if status["scale"] is not None and not status["scale"]["finished"]:
        parts.append(scale_line(status["scale"]))
    silent = [worker["silent"] for worker in workers if worker["silent"]]
    if silent:
        parts.append("\n".join(silent))
    return "\n\n".join(parts)


def explain_page(answer: dict[str, Any]) -> str:
    """What holds a frontier back."""
    name = f"{answer['name']!r} ({answer['path']})"
    silent = list(answer["silent"].values())
    if not answer["frontier"]:
        return "\n".join([f"{name} is complete: nothing can come to it any more", *silent])
    lines = [f"{name} waits at {_times(answer['frontier'])}"]
    if answer["under_way"]:
        lines.append(
            "none that answered holds what it waits for, so it is with a worker that did not answer, or on its way"
            if silent
            else "no worker holds what it waits for: it is on its way, or the job moves on while it is asked"
        )
        lines += [line for blocker in answer["under_way"] for line in _blocker(blocker, "")]
    else:
        lines += [line for blocker in answer["held"] for line in _blocker(blocker, f"worker {blocker['worker']} ")]
    return "\n".join([*lines, *silent])


def plan_line(plan: dict[str, Any]) -> str:
    """How a plan is doing."""
    how = f"{plan['steps_done']} of {plan['steps']} steps, {plan['bins_moved']} of {plan['bins']} bins"
    if plan["failure"]:
        return f"plan {plan['plan']} failed after {how}: {plan['failure']}"
    if not plan["finished"]:
        return f"plan {plan['plan']}: {how}{', ending' * plan['cancelled']}, {duration(plan['duration_s'])}"
    return f"plan {plan['plan']} {'was cancelled after' if plan['cancelled'] else 'is complete:'} {how}"


def summary_line(plan: dict[str, Any]) -> str:
    """What a plan did."""
    parts = [
        f"moved {_number(plan['bins_moved'], 'bin')}",
        f"{size(plan['state_bytes'])}",
        f"in {duration(plan['duration_s'])}",
        f"longest stall {duration(plan['stall_s_max'])}",
    ]
    if plan["failure"]:
        return f"failed: {plan['failure']}; {', '.join(parts)}"
    left = plan["bins"] - plan["bins_moved"]
    return ", ".join(parts) + (f"; cancelled, {_number(left, 'bin')} stayed" if left else "")


def scale_line(scale: dict[str, Any]) -> str:
    """How a change of processes is doing."""
    return f"{scale['goal']}: {_number(scale['bins_moved'], 'bin')} moved, {scale['waits_for']}"


def scale_summary(scale: dict[str, Any]) -> str:
    """What a change of processes did."""
    parts = [
        f"{_number(len(scale[what]), 'process', 'processes')} {what} ({', '.join(map(str, scale[what]))})"
        for what in ("joined", "left")
        if scale[what]
    ] or ["no process joined or left"]
    parts += [
        f"moved {_number(scale['bins_moved'], 'bin')}",
        size(scale["state_bytes"]),
        f"in {duration(scale['duration_s'])}",
        f"longest stall {duration(scale['stall_s_max'])}",
    ]
    return (f"failed: {scale['failure']}\n" if scale["failure"] else "") + ", ".join(parts)


def change_line(answer: dict[str, Any]) -> str:
    """What a change of processes would do."""
    if answer["joins"]:
        return f"{_number(answer['joins'], 'process', 'processes')} would join"
    if answer["leaves"]:
        listed = ", ".join(map(str, answer["leaves"]))
        return f"{_number(len(answer['leaves']), 'process', 'processes')} would leave: {listed}"
    return "nothing to do: there are as many processes"


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


def _how_far(frontier: list[Any]) -> str:
    return f"complete before epoch {show(frontier)}" if frontier else "complete"


def _times(frontier: list[Any]) -> str:
    return ("epoch " if all(isinstance(time, int) for time in frontier) else "") + show(frontier)


def _workers(workers: list[dict[str, Any]]) -> str:
    rows = [["worker", "process", "pid", "state", "epoch", "bins", "keys", ""]]
    for worker in workers:
        note = "no answer" if worker["silent"] else "waits for a slow peer" if worker["congested"] else ""
        epoch = "?" if worker["frontier"] is None else show(worker["frontier"])
        bins, keys = (f"{worker[key]:,}" if worker["frontier"] is not None else "?" for key in ("bins", "keys"))
        who = [str(worker[key]) for key in ("worker", "process", "pid", "state")]
        rows.append([*who, epoch, bins, keys, note])
    return table(rows)


def _operators(operators: list[dict[str, Any]]) -> str:
    rows = [["operator", "path", "epoch", "records/s", "busy"]]
    for operator in operators:
        rate, busy = f"{operator['records_per_s']:,.0f}", f"{operator['busy']:.0%}"
        rows.append([_short(operator["name"]), operator["path"], show(operator["frontier"]), rate, busy])
    return table(rows, left=2)


def _bins(operators: list[dict[str, Any]]) -> str:
    rows = [["operator on bins", "bins by worker", "bins", "keys", "moving"]]
    for operator in operators:
        shares = Counter(operator["owners"])
        by_worker = "  ".join(f"{worker}: {count}" for worker, count in sorted(shares.items()))
        moving = str(len(operator["pending"]))
        keys = sum(operator["keys"].values())
        rows.append([_short(operator["name"]), by_worker, str(len(operator["owners"])), f"{keys:,}", moving])
    return table(rows, left=2)


def _blocker(blocker: dict[str, Any], who: str) -> list[str]:
    time, at = from_json(blocker["time"]), f"{blocker['name']!r} ({blocker['path']})"
    if blocker["kind"] == "capability":
        many = "a capability" if blocker["count"] == 1 else f"{blocker['count']} capabilities"
        line = f"  {who}{'holds ' if who else ''}{many} for {time!r} at output {blocker['port']} of {at}"
    else:
        has = "has " if who else ""
        line = f"  {who}{has}{_number(blocker['count'], 'record')} at {time!r} before input {blocker['port']} of {at}"
    via = blocker["via"]
    shown = [*via[: VIA_MAX // 2], "…", *via[-VIA_MAX // 2 :]] if len(via) > VIA_MAX else via
    return [line, f"    {' → '.join(shown)}"] if len(shown) > 1 else [line]


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _number(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
