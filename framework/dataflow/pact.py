"""How records travel between two operators: on the same worker, to the worker a record asks for, or to all.

A pact sees whole containers. Progress counts records before they are routed, so routing may cut containers as it
likes, as long as every record arrives exactly once (or, for `Broadcast`, once per worker).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from framework.dataflow.handle import Pusher
from framework.error_context import attach_record, definition_of
from framework.errors import OperatorFailed, RouteOutOfRange
from framework.membership.members import Members, WorkerId
from framework.progress.order import Time
from framework.wire.container import Container, Reservation


class Channel(Protocol):
    """One edge of the dataflow graph on one worker."""

    @property
    def worker(self) -> WorkerId:
        """This worker."""

    def members(self) -> Members:
        """The workers that records go to, as of now."""

    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with; asked for by pacts that rely on them."""

    def deliver(self, time: Time, container: Container) -> None:
        """Hand a container to the receiver on this worker."""

    def failure(self, time: Time) -> OperatorFailed:
        """The error for a record at `time` that cannot be routed: it names the receiving operator."""

    def reserve(self, peer: WorkerId, size: int) -> Reservation | None:
        """Memory of another worker for a container whose buffers take `size` bytes, if that saves a copy."""

    def send(self, peer: WorkerId, time: Time, container: Container, reservation: Reservation | None = None) -> None:
        """Hand a container to the receiver on another worker, with the reservation that it was written to, if any."""


class Pact(Protocol):
    """Where the records of a stream go."""

    @property
    def to_all(self) -> bool:
        """Whether each record goes to all workers."""

    def pusher(self, channel: Channel) -> Pusher:
        """A function that routes containers into `channel`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Records stay on their worker."""

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        return channel.deliver


@dataclass(frozen=True, slots=True)
class Exchange:
    """Each record goes to the worker that `route(record)`, modulo the number of workers, names.

    `route` must give the same number on every worker; Python's own `hash` of a string does not. When workers join or
    leave, records of one number go to another worker from some moment on: an operator that keeps state by that number
    wants `Fixed`, or bins.
    """

    route: Callable[[Any], int]

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        return _router(channel, self.route, lambda: channel.members().workers)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Like `Exchange`, but among the workers that the job began with, whoever joins: a number keeps its worker.

    None of those can leave a job that has such a pact.
    """

    route: Callable[[Any], int]

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        founders = channel.founders()
        return _router(channel, self.route, lambda: founders)


def _router(channel: Channel, route: Callable[[Any], int], among: Callable[[], tuple[WorkerId, ...]]) -> Pusher:
    def push(time: Time, rows: Any) -> None:
        """Hot path: with one worker, one record is looked at, so that a wrong route is found there as well."""
        workers = among()
        count = len(workers)
        parts: list[list[Any]] = [[] for _ in workers]
        record: Any = None
        number: Any = 0
        try:
            for record in rows if count > 1 else rows[:1]:
                number = route(record)
                parts[number % count].append(record)
        except Exception as error:
            raise channel.failure(time) from _routing_error(route, record, number, error)
        if count == 1:
            parts[0] = rows
        for worker, part in zip(workers, parts, strict=True):
            if part:
                deliver(channel, worker, time, part)

    return push


def _routing_error(route: Callable[[Any], int], record: Any, number: Any, error: Exception) -> Exception:
    """What a route raised, or that it gave something other than an integer."""
    if not hasattr(number, "__index__"):
        return RouteOutOfRange(
            f"{definition_of(route)} gave {number!r} for {record!r}; a route gives an integer, and `exchange_by(key)` "
            f"brings equal keys together"
        )
    attach_record(error, record)
    return error


@dataclass(frozen=True, slots=True)
class Deal:
    """Each container is cut into slices of equal size, which go to the workers in turn (round robin)."""

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        turn = 0

        def push(time: Time, rows: Any) -> None:
            nonlocal turn
            workers = channel.members().workers
            if len(workers) == 1:
                deliver(channel, workers[0], time, rows)
                return
            size = -(-len(rows) // len(workers))
            for start in range(0, len(rows), size):
                deliver(channel, workers[turn % len(workers)], time, rows[start : start + size])
                turn += 1

        return push


@dataclass(frozen=True, slots=True)
class Direct:
    """Each record goes to the worker that `worker(record)` names."""

    worker: Callable[[Any], WorkerId]

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        worker_of = self.worker

        def push(time: Time, rows: Any) -> None:
            parts: dict[WorkerId, list[Any]] = {}
            for record in rows:
                parts.setdefault(worker_of(record), []).append(record)
            for worker, part in parts.items():
                deliver(channel, worker, time, part)

        return push


@dataclass(frozen=True, slots=True)
class Gather:
    """Everything goes to one worker, in the containers that it comes in."""

    worker: WorkerId

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        return lambda time, container: deliver(channel, self.worker, time, container)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Each record goes to every worker."""

    to_all = True

    def pusher(self, channel: Channel) -> Pusher:
        def push(time: Time, container: Container) -> None:
            for worker in channel.members().workers:
                deliver(channel, worker, time, container)

        return push


def deliver(
    channel: Channel, worker: WorkerId, time: Time, container: Container, reservation: Reservation | None = None
) -> None:
    """Hand a container to the receiver on `worker`, be it this one."""
    if worker == channel.worker:
        channel.deliver(time, container)
    else:
        channel.send(worker, time, container, reservation)
