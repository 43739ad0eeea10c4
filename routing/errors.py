"""What jobs and their operators can get wrong with bins and plans.

A bad control command is none of these: it is refused with a reason (`routing.commands`), because it arrives while a job
runs and must not stop it.
"""

from __future__ import annotations

from framework.errors import UserError


class BinCountInvalid(UserError):
    """A number of bins that keys cannot be spread over by the top bits of their hash."""


class BinOptionsInvalid(UserError):
    """Options of a stateful operator that cannot be."""


class PlanInvalid(UserError):
    """A plan, or what one should be made from, contradicts itself or the owners of the bins."""


class NeverBootstrapped(UserError):
    """A worker joined and was never told who owns what."""


class GoalRefused(UserError):
    """Bins were asked to go where they cannot."""
