"""What workers say to each other when one of them joins or leaves a running job.

Each message is a row of `_SHAPES`: its number on the wire, and how each of its fields is checked. The protocols are in
`framework.membership`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from framework.errors import ProtocolError
from framework.membership.members import Address, WorkerId
from framework.progress.order import Time
from framework.wire import checks

Batch: TypeAlias = tuple[tuple[int, Time, int], ...]
"""The changes of one batch of progress."""

Pointstamps: TypeAlias = tuple[tuple[int, Time, int], ...]
"""Locations, times and counts."""

SequenceNumbers: TypeAlias = tuple[tuple[int, int], ...]
"""By channel, or by worker, the number of the next batch."""


# Turns


@dataclass(frozen=True, slots=True)
class Ask:
    """To the coordinator: `requester` wants a turn to let `worker` join or leave."""

    requester: WorkerId
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Queued:
    """To a requester, and from there to a joiner: it is not yet the turn of `worker`; `ahead` others come first."""

    worker: WorkerId
    ahead: int


@dataclass(frozen=True, slots=True)
class Grant:
    """To a requester: it is the turn of `worker`."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Done:
    """To the coordinator: the turn of `worker` is over."""

    worker: WorkerId


# Joining


@dataclass(frozen=True, slots=True)
class Join:
    """A joiner to its server: let me in. Its process listens at `address`."""

    address: Address


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server to a joiner: no, or no longer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Roster:
    """The server to a joiner: link up with these. The first workers of the job are its founders; `spent` are the ids of
    all that it ever had."""

    version: int
    members: tuple[tuple[WorkerId, Address], ...]
    founders: tuple[WorkerId, ...]
    spent: tuple[WorkerId, ...]


@dataclass(frozen=True, slots=True)
class Linked:
    """A joiner to its server: I have links to all of them."""


@dataclass(frozen=True, slots=True)
class Admit:
    """The server to all members: tell `joiner` of your progress from now on. It takes part from dataflow `first` on."""

    joiner: WorkerId
    address: Address
    first: int


@dataclass(frozen=True, slots=True)
class ScopeState:
    """The server to a joiner: what I have heard of a scope, and what that has yet to report to its surroundings."""

    channel: int
    pointstamps: Pointstamps
    exits: Pointstamps
    next_in: SequenceNumbers


@dataclass(frozen=True, slots=True)
class JoinState:
    """The server to a joiner, after all `ScopeState`: how many dataflows and channels were ever built, and the
    capabilities that are yours."""

    built: int
    channels: int
    fingerprints: tuple[tuple[int, bytes], ...]
    next_out: SequenceNumbers
    lent: tuple[tuple[str, int, Time], ...]
    """By operator (its path) and output."""
    participation: tuple[tuple[WorkerId, int, int], ...]
    """By worker, the first dataflow that it starts with everybody else, and the first that it no longer does."""


@dataclass(frozen=True, slots=True)
class First:
    """A member to a joiner, first of all on their link: by channel, the number of the next batch that you will see."""

    next_out: SequenceNumbers


@dataclass(frozen=True, slots=True)
class Want:
    """A joiner to its server: by channel and sender, the batches from one number to just before another."""

    ranges: tuple[tuple[int, WorkerId, int, int], ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """The server to a joiner: one of the batches that it lacks."""

    channel: int
    sender: WorkerId
    sequence: int
    changes: Batch


@dataclass(frozen=True, slots=True)
class Ready:
    """A joiner to its server: I know all, and have built what you have."""


@dataclass(frozen=True, slots=True)
class Enlist:
    """The server to all members: count `joiner` among us, and hold what is for it. Then to the joiner: all of us do."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Enlisted:
    """A member to the server: from now on I do. Then the joiner: I am here."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Joined:
    """The server to all, the joiner among them: `joiner` is one of us."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Forget:
    """The server to all members: `joiner` does not join after all."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Settled:
    """Whoever was told `Joined` or `Forget` to the server: so it is here."""

    joiner: WorkerId


# Leaving


@dataclass(frozen=True, slots=True)
class Wish:
    """To all members: `worker` wants to leave; the worker that commands the bins is to move its bins away."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Leaving:
    """A leaver to all members: send me no more records. I have built `built` dataflows."""

    built: int


@dataclass(frozen=True, slots=True)
class Released:
    """A member to the leaver: there will be none."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """A leaver to all members: nothing of mine is left. And each of them to the leaver: I have heard it."""


RescaleMessage: TypeAlias = (
    Ask
    | Queued
    | Grant
    | Done
    | Join
    | Refuse
    | Roster
    | Linked
    | Admit
    | ScopeState
    | JoinState
    | First
    | Want
    | Missing
    | Ready
    | Enlist
    | Enlisted
    | Joined
    | Forget
    | Wish
    | Settled
    | Leaving
    | Released
    | Farewell
)


def _worker(value: Any) -> WorkerId:
    return WorkerId(checks.natural(value))


def _address(value: Any) -> Address:
    match value:
        case [str(host), int(port)] if type(port) is int and 0 <= port <= 65_535:
            return host, port
    raise ProtocolError("no address where one was expected")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ProtocolError("no text where some was expected")


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ProtocolError("no bytes where some were expected")


def _row(*kinds: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(kinds):
            raise ProtocolError(f"no row of {len(kinds)} fields where one was expected")
        return tuple(kind(field) for kind, field in zip(kinds, value, strict=True))

    return check


def _each(kind: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ProtocolError("no list where one was expected")
        return tuple(map(kind, value))

    return check


_NUMBERS = _each(_row(checks.natural, checks.natural))
_CHANGES = _each(checks.change)

_SHAPES: dict[int, tuple[type[Any], tuple[Callable[[Any], Any], ...]]] = {
    16: (Ask, (_worker, _worker)),
    17: (Queued, (_worker, checks.natural)),
    18: (Grant, (_worker,)),
    19: (Done, (_worker,)),
    20: (Join, (_address,)),
    21: (Refuse, (_text,)),
    22: (Roster, (checks.natural, _each(_row(_worker, _address)), _each(_worker), _each(_worker))),
    23: (Linked, ()),
    24: (Admit, (_worker, _address, checks.natural)),
    25: (ScopeState, (checks.natural, _CHANGES, _CHANGES, _NUMBERS)),
    26: (
        JoinState,
        (
            checks.natural,
            checks.natural,
            _each(_row(checks.natural, _bytes)),
            _NUMBERS,
            _each(_row(_text, checks.natural, checks.time)),
            _each(_row(_worker, checks.natural, checks.natural)),
        ),
    ),
    27: (First, (_NUMBERS,)),
    28: (Want, (_each(_row(checks.natural, _worker, checks.natural, checks.natural)),)),
    29: (Missing, (checks.natural, _worker, checks.natural, _CHANGES)),
    30: (Ready, ()),
    31: (Enlist, (_worker,)),
    32: (Enlisted, (_worker,)),
    33: (Joined, (_worker,)),
    34: (Forget, (_worker,)),
    35: (Leaving, (checks.natural,)),
    36: (Released, ()),
    37: (Farewell, ()),
    38: (Wish, (_worker,)),
    39: (Settled, (_worker,)),
}
_KINDS = {kind: number for number, (kind, _) in _SHAPES.items()}


def shape_of(message: RescaleMessage) -> tuple[int, tuple[Any, ...]]:
    """The number of a message's kind, and its fields."""
    return _KINDS[type(message)], tuple(getattr(message, field.name) for field in fields(message))


def from_shape(kind: int, values: Any) -> RescaleMessage | None:
    """The message of these fields, None if there is no such kind, or `ProtocolError`."""
    if kind not in _SHAPES:
        return None
    message, kinds = _SHAPES[kind]
    made: RescaleMessage = message(*_row(*kinds)(values))
    return made
