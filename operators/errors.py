"""What jobs can get wrong with operators, what operators find wrong with captures, and what a served job refuses."""

from __future__ import annotations

from framework.errors import UserError, WorldError


class RouteOutOfRange(UserError):
    """A function that chooses an output named one that is not there."""


class SharedInitial(UserError):
    """A mutable object was given as the initial state, so all keys would share it."""


class RecordNotPair(UserError):
    """An operator that works by key received a record that is not a pair of key and value."""


class FoldMisreturned(UserError):
    """A fold did not return a state and outputs."""


class RecordUnfit(UserError):
    """A record does not fit the schema of where it goes."""


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
