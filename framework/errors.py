"""Every exception that the framework raises for something other than its own bugs.

Two families. `UserError`: the program or its operator asked for something that cannot be; the text says what,
where, and what to do instead. `WorldError`: a peer, a port or a link failed; caught only where a recovery exists.
The framework's own mistakes are assertions.
"""

from __future__ import annotations


class HailerError(Exception):
    """The root of all named errors."""


class UserError(HailerError):
    """Something that the job's author or operator can put right."""


class WorldError(HailerError):
    """Something outside the process failed."""


class TimeNotCovered(UserError):
    """A capability was asked for a time that it does not cover."""


class CapabilityInvalid(UserError):
    """A capability was used after it was dropped, after its activation, or at another output."""


class TimeWentBackwards(UserError):
    """An input was told to advance to a time before its own."""


class InputClosed(UserError):
    """A record was sent to an input that is closed."""


class CycleDoesNotAdvance(UserError):
    """A loop of the dataflow graph does not advance the time."""


class GraphError(UserError):
    """A dataflow was put together wrongly."""


class DuplicateName(UserError):
    """A name is taken."""


class DataflowMismatch(UserError):
    """Two workers built different dataflows."""


class RouteOutOfRange(UserError):
    """A function that chooses an output or a worker gave something that names none."""


class UnencodableRecord(UserError):
    """A record cannot leave its process; `detail` is what of it cannot, and why."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class RecordTooLarge(UserError):
    """One record alone exceeds the limit of a frame."""


class ConfigError(UserError):
    """A flag, a hostfile or a setting does not make sense."""


class OperatorFailed(UserError):
    """A function of the job raised; `__cause__` is what it raised."""

    def __init__(self, *, operator: str, path: str, worker: int, time: object) -> None:
        at = f" at time {time!r}" if time is not None else ""
        super().__init__(f"operator {operator!r} ({path}) failed on worker {worker}{at}")
        self.operator = operator
        self.path = path
        self.worker = worker
        self.time = time


class ProtocolError(WorldError):
    """A peer sent something that the protocol does not allow."""


class PeerLost(WorldError):
    """A link ended without a goodbye."""


class PeerRefused(WorldError):
    """A peer did not accept this process as a member."""


class PortTaken(WorldError):
    """The port that this process should listen on is in use."""


class PeersUnreachable(WorldError):
    """The other processes did not answer in time."""


class JobAborted(WorldError):
    """Another worker ended the job; carries its report."""


class JobStopped(BaseException):
    """The job was asked to stop (Ctrl-C, SIGTERM). Like `KeyboardInterrupt`, it passes through `except Exception`."""


class SecretMismatch(UserError):
    """Two processes do not share one cluster secret."""


class CannotStart(WorldError):
    """A process could not be started; nothing is left of it."""


class JobEnds(WorldError):
    """No process can be added to a job that is about to end."""


class ProcessesFailed(HailerError):
    """Some process ended with an error; `code` is what the supervisor should exit with."""

    def __init__(self, report: str, code: int) -> None:
        super().__init__(report)
        self.code = code


class RequestFailed(UserError):
    """A worker could not do what it was asked for, and says why."""


class NoAnswer(WorldError):
    """A worker did not answer: it is busy, or gone."""
