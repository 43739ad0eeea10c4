"""Plans: which bins move where, in which steps, and how far they have got."""

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
