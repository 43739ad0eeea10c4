"""Plans: which bins move where, in which steps, and how far they have got."""

from __future__ import annotations

from routing.plan.balance import balance
from routing.plan.plan import Plan, Step, Transfer
from routing.plan.runner import PlanRunner, Progress
from routing.plan.strategies import Reassignment, all_at_once, batched, fluid, optimized

__all__ = [
    "Plan",
    "Step",
    "Transfer",
    "Reassignment",
    "all_at_once",
    "fluid",
    "batched",
    "optimized",
    "PlanRunner",
    "Progress",
    "balance",
]
