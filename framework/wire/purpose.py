"""What a connection is for: the first thing that a client says once it has proven the secret, in its `Hello`.

A listener names the purposes that it serves, and `ServerHandshake` refuses the others. What goes over the connection
afterwards is another protocol for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar, TypeAlias

from framework.errors import ProtocolError
from framework.membership.members import WorkerId
from framework.progress.order import EPOCH_MAX
from framework.wire.codec import decode_value, encode_fields


@dataclass(frozen=True, slots=True)
class WorkerLink:
    """A link between workers of a cluster that starts, of which the client believes this."""

    NAME: ClassVar = "links between workers"

    processes: int
    threads: int
    source: WorkerId
    target: WorkerId


@dataclass(frozen=True, slots=True)
class JoinerLink:
    """A link from a worker that joins a running job. How many processes that began with, it does not know."""

    NAME: ClassVar = "links from workers that join"

    threads: int
    source: WorkerId
    target: WorkerId


@dataclass(frozen=True, slots=True)
class ExecutorStream:
    """One of the streams between a process that a cluster's executor runs, and its supervisor."""

    NAME: ClassVar = "streams of processes on executors"

    attempt: int
    """The number of the attempt to start the process."""
    process: int
    kind: int


@dataclass(frozen=True, slots=True)
class BrokerConnection:
    """A client that feeds a job's inputs or reads its outputs."""

    NAME: ClassVar = "clients of a job's broker"


Purpose: TypeAlias = WorkerLink | JoinerLink | ExecutorStream | BrokerConnection

_PURPOSES: dict[int, type[Purpose]] = {1: WorkerLink, 2: JoinerLink, 3: ExecutorStream, 4: BrokerConnection}
_TAGS = {purpose: tag for tag, purpose in _PURPOSES.items()}


def encode(purpose: Purpose) -> bytes:
    """A purpose in bytes: its tag and its fields, all of them integers."""
    return encode_fields((_TAGS[type(purpose)], *astuple(purpose)))


def decode(body: bytes) -> Purpose:
    """The purpose in these bytes, or `ProtocolError`."""
    match decode_value(body):
        case [tag, *fields] if all(type(value) is int and 0 <= value <= EPOCH_MAX for value in (tag, *fields)):
            purpose: Any = _PURPOSES.get(tag)
            if purpose is not None and len(fields) == len(purpose.__match_args__):
                made: Purpose = purpose(*fields)
                return made
    raise ProtocolError("the Hello names no purpose that is known here")


def refusal(purpose: Purpose, served: Sequence[type[Any]]) -> str:
    """What a client is told whose purpose is none of those that a listener serves."""
    return f"this port is for {' and '.join(one.NAME for one in served)}, not for {purpose.NAME}"
