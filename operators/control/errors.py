"""What can go wrong between the `hailer` command and a running job. Each is printed as it is, and ends the command."""

from __future__ import annotations

from framework.errors import UserError, WorldError


class NoSuchJob(UserError):
    """No job, or more than one, fits what was asked for."""


class BadRequest(UserError):
    """The arguments of a request make no sense to the job."""


class JobUnreachable(WorldError):
    """A job that should be running does not answer."""


class ChangeFailed(WorldError):
    """The bins or processes of a job did not change as they should have."""


class RunDirectoryUnusable(WorldError):
    """The directory that a job is found by cannot be written."""
