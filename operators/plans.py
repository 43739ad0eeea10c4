"""Which bins should move where, and in which steps: targets, strategies, plans, and the runner of a plan."""

from __future__ import annotations

from routing.migration.balance import balance
from routing.migration.plan import Plan, Step, Transfer
from routing.migration.runner import PlanProgress, PlanRunner
from routing.migration.strategies import Reassignment, all_at_once, batched, fluid, optimized

__all__ = [
    "Plan",
    "PlanProgress",
    "PlanRunner",
    "Reassignment",
    "Step",
    "Transfer",
    "all_at_once",
    "balance",
    "batched",
    "fluid",
    "optimized",
]
