"""What can go wrong between a running job and those who call it. The `hailer` command prints each as it is."""

from __future__ import annotations

from framework.errors import UserError, WorldError


class NoSuchJob(UserError):
    """No job, or more than one, fits what was asked for."""


class BadRequest(UserError):
    """The arguments of a request make no sense to the job."""


class JobUnreachable(WorldError):
    """A job that should be running does not answer."""


class JobEnded(JobUnreachable):
    """The job came to its end while it was called; the text says how."""


class RunDirectoryUnusable(WorldError):
    """The directory that a job is found by cannot be written, or others can write to it."""
