"""What can go wrong with a change that a running job was asked for."""

from __future__ import annotations

from framework.errors import WorldError


class ChangeFailed(WorldError):
    """The bins or processes of a job did not change as they should have."""
