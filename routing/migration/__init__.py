"""Moving bins: plans of which bins move where and in which steps, their progress, and how a bin's state travels."""

from __future__ import annotations

from routing.migration.balance import balance
from routing.migration.plan import Plan, Step, Transfer
from routing.migration.runner import PlanProgress, PlanRunner
from routing.migration.strategies import Reassignment, all_at_once, batched, fluid, optimized

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
    "PlanProgress",
    "balance",
]
