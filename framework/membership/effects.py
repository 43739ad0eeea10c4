"""What the cores of membership want done. They decide, and return these; `driver` carries them out.

The order of effects is part of the protocol: links are FIFO, and what makes a join safe is what goes out before what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from framework.membership.members import Address, Members, WorkerId
from framework.wire.messages import Message


class Phase(Enum):
    """How far a join has come, as the joiner sees it."""

    ASKING = "turn"
    LINKING = "links"
    LEARNING = "state"
    FILLING = "missing batches"
    BUILDING = "dataflows"
    ENLISTING = "enlisting"
    JOINED = "joined"


# Links


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a peer."""

    peer: WorkerId
    message: Message


@dataclass(frozen=True, slots=True)
class Reach:
    """Establish links to these peers, before anything else is done."""

    addresses: Mapping[WorkerId, Address]


@dataclass(frozen=True, slots=True)
class Part:
    """End the link to a peer, after what was sent to it."""

    peer: WorkerId


# Who takes part


@dataclass(frozen=True, slots=True)
class SetAudience:
    """Tell these of progress from now on."""

    audience: tuple[WorkerId, ...]


@dataclass(frozen=True, slots=True)
class SetMembers:
    """Route records among these from now on."""

    members: Members


@dataclass(frozen=True, slots=True)
class HoldRecords:
    """Hold records for `joiner` back, which is among the members and may still not join."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class SendHeld:
    """Send the records that were held back: their receiver has joined."""


@dataclass(frozen=True, slots=True)
class RerouteHeld:
    """Route the records that were held back among the members, which their receiver is not one of any more."""


# What programs and users hear


@dataclass(frozen=True, slots=True)
class NotifyJoined:
    """`joiner` is a member for good, and every member's records go to it."""

    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class NotifyWish:
    """`worker` wants to leave, and something is in its way."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """This worker's join has come to a phase."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class Log:
    """Say what is going on."""

    text: str


@dataclass(frozen=True, slots=True)
class RefuseLeave:
    """Raise `PeerRefused` where this worker is about to leave."""

    reason: str


# Time


@dataclass(frozen=True, slots=True)
class SetDeadline:
    """Call `Member.give_up` if the join of `joiner` takes too long."""

    joiner: WorkerId


Effect: TypeAlias = (
    Send
    | Reach
    | Part
    | SetAudience
    | SetMembers
    | HoldRecords
    | SendHeld
    | RerouteHeld
    | NotifyJoined
    | NotifyWish
    | EnterPhase
    | Log
    | RefuseLeave
    | SetDeadline
)
