"""Every exception that programs may want to catch.

Those of operators, jobs and Spark are defined here; those of the layers below, and of the admin and control planes, are
passed on. A `UserError` is something that the job's author or operator can put right, a `WorldError` something outside
the process; both are a `HailerError`.
"""

from __future__ import annotations

from framework.errors import (
    CannotStart,
    CapabilityInvalid,
    ConfigError,
    CycleDoesNotAdvance,
    DataflowMismatch,
    DuplicateName,
    GraphError,
    HailerError,
    InputClosed,
    JobAborted,
    JobEnds,
    JobStopped,
    NoAnswer,
    OperatorFailed,
    PeerLost,
    PeerRefused,
    PeersUnreachable,
    PortTaken,
    ProcessesFailed,
    ProtocolError,
    RecordTooLarge,
    RequestFailed,
    RouteOutOfRange,
    SecretMismatch,
    TimeNotCovered,
    TimeWentBackwards,
    UnencodableRecord,
    UserError,
    WorldError,
)
from operators.admin.errors import BadRequest, JobEnded, JobUnreachable, NoSuchJob, RunDirectoryUnusable
from operators.control.errors import ChangeFailed
from routing.errors import BinCountInvalid, BinOptionsInvalid, GoalRefused, NeverBootstrapped, PlanInvalid
from routing.hashing import UnsupportedKey
from routing.state.errors import (
    MemoryBudgetTooSmall,
    StoreCorrupt,
    StoreFull,
    StoreLocked,
    StoreUnusable,
    UnencodableState,
)

__all__ = [
    "BadRequest",
    "BinCountInvalid",
    "BinOptionsInvalid",
    "CannotStart",
    "CapabilityInvalid",
    "CaptureCorrupt",
    "CaptureTruncated",
    "ChangeFailed",
    "ConfigError",
    "CycleDoesNotAdvance",
    "DataflowMismatch",
    "DuplicateName",
    "EventsForgotten",
    "FoldMisreturned",
    "FoldNotCompiled",
    "GoalRefused",
    "GraphError",
    "HailerError",
    "InputClosed",
    "JobAborted",
    "JobEnded",
    "JobEnds",
    "JobFileError",
    "JobLost",
    "JobStopped",
    "JobUnreachable",
    "MemoryBudgetTooSmall",
    "NeverBootstrapped",
    "NoAnswer",
    "NoSuchJob",
    "NotJoined",
    "OperatorFailed",
    "OutputFailed",
    "PeerLost",
    "PeerRefused",
    "PeersUnreachable",
    "PlanInvalid",
    "PortTaken",
    "ProcessesFailed",
    "ProtocolError",
    "RecordNotPair",
    "RecordTooLarge",
    "RecordUnfit",
    "RequestFailed",
    "RequestRefused",
    "RouteOutOfRange",
    "RunDirectoryUnusable",
    "SecretMismatch",
    "SharedInitial",
    "SparkUnusable",
    "StoreCorrupt",
    "StoreFull",
    "StoreLocked",
    "StoreUnusable",
    "StreamsDiffer",
    "TimeNotCovered",
    "TimeWentBackwards",
    "UnencodableRecord",
    "UnencodableState",
    "UnsupportedKey",
    "UserError",
    "ValueUnfit",
    "WorldError",
]


class SharedInitial(UserError):
    """A mutable object was given as the initial state, so all keys would share it."""


class RecordNotPair(UserError):
    """An operator that works by key received a record that is not a pair of key and value."""


class FoldMisreturned(UserError):
    """A fold did not return a state and outputs."""


class RecordUnfit(UserError):
    """A record does not fit the schema of where it goes."""


class OutputFailed(UserError):
    """An output could not be written: a record has no form there, or the disk is full, say."""


class StreamsDiffer(UserError):
    """Two streams that should carry the same records do not, at some time."""

    def __init__(self, message: str, *, time: object, missing: list[object], surplus: list[object]) -> None:
        super().__init__(message)
        self.time = time
        self.missing = missing
        self.surplus = surplus


class EventsForgotten(UserError):
    """A reader came to an event log that has already dropped its beginning."""


class CaptureCorrupt(WorldError):
    """A captured stream contains something that no capture writes."""


class CaptureTruncated(WorldError):
    """A captured stream ends before it is complete: its writer has crashed, or is still writing."""


class NotJoined(UserError):
    """A command names a worker that is not a member yet."""


class RequestRefused(UserError):
    """A served job does not do what a client asks for, and says why. Nothing has changed."""


class JobLost(WorldError):
    """A served job does not answer: it has ended, or its machine cannot be reached."""


class FoldNotCompiled(GraphError):
    """A function cannot be compiled for columns."""


class ValueUnfit(UserError):
    """A value cannot be given to compiled code."""


class JobFileError(UserError):
    """A file does not hold one job."""


class SparkUnusable(WorldError):
    """Spark did not start."""
