"""Where a job's processes come from: a seam that `framework.launch.local` fills for this machine."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from framework.membership.members import Address

END_WHEN_ASKED_S = 10.0
"""How long a process that was asked to end has for that, before it is killed."""

KILLED_S_MAX = 5.0
"""How long a process that was killed may take to end, before it is waited for no longer."""


class Started(Protocol):
    """One process that was started, or is about to run."""

    @property
    def address(self) -> Address:
        """Where it listens for the other processes."""

    @property
    def pid(self) -> int:
        """Its number on its own machine."""

    @property
    def status_fd(self) -> int:
        """Its end of the status pipe, which ends with the process; the supervisor closes it."""

    @property
    def rpc_socket(self) -> socket.socket:
        """Takes requests and gives answers."""

    def poll(self) -> int | None:
        """What it exited with, if it has ended; less than 0 if that was not by itself."""

    def wait(self) -> int:
        """The same, once it has ended, which it is about to. It is waited for some seconds, and no longer."""

    def ending(self) -> str:
        """How it ended, behind its name."""

    def cpu_time_s(self) -> float | None:
        """How much CPU time it has used, if that is known."""

    def ask_to_end(self, *, up: bool) -> None:
        """Ask it to end, not to leave; `up`: it handles signals."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which processes to start."""

    numbers: Sequence[int]
    server: tuple[int, Address] | None
    """The process that helps them to join, and where it listens, if the job runs already; one joins at a time."""
    outputs: Callable[[int], tuple[int | None, int | None]]
    """Where the standard output and error of each go: descriptors to close, or None for those of this process."""
    should_stop: Callable[[], bool]
    unread: Callable[[], None]
    """To be called by a launcher that passes output on and finds that nobody reads it."""


class Launcher(Protocol):
    """Where processes come from."""

    def start(self, order: Order) -> Iterator[Started]:
        """Start processes, in the order of their numbers. May raise `CannotStart`."""

    def close(self) -> None:
        """Release what the processes had in common; all have ended."""


def how_it_ended(code: int) -> str:
    """What an exit code says, behind the name of a process."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"
