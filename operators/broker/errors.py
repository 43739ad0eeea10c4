"""What can go wrong between a job and those who feed and read it."""

from __future__ import annotations

from framework.errors import UserError, WorldError


class RequestRefused(UserError):
    """The job does not do what it was asked for, and says why. Nothing has changed."""


class JobLost(WorldError):
    """The job does not answer: it has ended, or its machine cannot be reached."""
