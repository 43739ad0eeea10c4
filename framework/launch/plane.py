"""What a job's processes can be asked while they run, and by whom: a seam that is filled from above the framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from framework.launch.link import Inquiry
from framework.launch.signals import Stop
from framework.membership import WorkerId
from framework.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Supervised:
    """One process of a job, as its supervisor sees it."""

    process: int
    pid: int
    workers: Sequence[WorkerId]
    inquiry: Inquiry


class ControlPlane(Protocol):
    """Fills the seam: `answer` in every process of the job, the rest in the one that supervises them."""

    def answer(self, worker: Worker, request: str, arguments: Mapping[str, Any]) -> Any:
        """What `worker` answers to a request, in JSON's terms; called in its thread, between its steps."""

    def outputs(self, workers: Sequence[WorkerId], *, alone: bool) -> tuple[int | None, int | None]:
        """Where the standard output and error go of a process that has these workers, and may be alone.

        They are descriptors that are closed once it has started, or None for the supervisor's own.
        """

    def overseeing(self, processes: Sequence[Supervised], stop: Stop) -> AbstractContextManager[None]:
        """Oversee these processes while the block runs; the sequence grows as others start."""
