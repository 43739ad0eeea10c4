"""The flags that say what a job that is served may keep on disk."""

from __future__ import annotations

import argparse
import re

from framework.errors import ConfigError
from operators.broker.budget import ATTEMPT_S, MEMORY_BYTES, BrokerLimits

FLAGS = ("buffer_dir", "buffer_memory", "staged_bytes", "unread_bytes", "attempt_timeout")
_SIZE = re.compile(r"(?P<number>\d+) ?(?P<unit>[KMGT]?)(i?B)?", re.IGNORECASE)


def add_broker_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of a job that can be served."""
    group = parser.add_argument_group("with --serve")
    group.add_argument(
        "--buffer-dir",
        metavar="DIR",
        help="where the first worker keeps what is staged and unread (the system's temporary directory)",
    )
    group.add_argument("--buffer-memory", metavar="SIZE", help=f"how much of both is in memory ({MEMORY_BYTES >> 20}M)")
    group.add_argument(
        "--staged-bytes",
        metavar="SIZE",
        help="how much may be staged, as 500M or 20G (a quarter of what is free, 16G at most)",
    )
    group.add_argument(
        "--unread-bytes",
        metavar="SIZE",
        help="from how much on that nobody has read the job takes nothing in (half of what is free, 64G at most)",
    )
    group.add_argument(
        "--attempt-timeout",
        type=float,
        metavar="SECONDS",
        help=f"how long what is staged waits for its commit ({ATTEMPT_S:g})",
    )


def limits_from_flags(flags: argparse.Namespace) -> BrokerLimits:
    """What the flags say."""
    given = [flag for flag in FLAGS if getattr(flags, flag) is not None]
    if given and not flags.serve:
        raise ConfigError(f"--{given[0].replace('_', '-')} goes with --serve")
    return BrokerLimits(
        directory=flags.buffer_dir,
        staged_bytes=None if flags.staged_bytes is None else _size("--staged-bytes", flags.staged_bytes),
        unread_bytes=None if flags.unread_bytes is None else _size("--unread-bytes", flags.unread_bytes),
        memory_bytes=MEMORY_BYTES if flags.buffer_memory is None else _size("--buffer-memory", flags.buffer_memory),
        attempt_s=ATTEMPT_S if flags.attempt_timeout is None else flags.attempt_timeout,
    )


def _size(flag: str, text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{flag} {text!r}: write a size such as 500M or 20G")
    return int(found["number"]) << 10 * " KMGT".index(found["unit"].upper() or " ")
