"""The CPU time that a process of this machine has used."""

from __future__ import annotations

import os
from pathlib import Path

_USER, _SYSTEM = 11, 12
"""Fields of proc_pid_stat(5), counted from behind the name of the program, which may hold anything."""


def cpu_time_s(pid: int) -> float | None:
    """All threads together; None if it has ended, or where the system has no /proc.

    >>> first = cpu_time_s(os.getpid())
    >>> first is None or first > 0
    True
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
