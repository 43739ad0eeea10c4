"""What one says about bins on a control stream, what becomes of it, and the ids in it.

`flow.command`, `Job.run(…, commands=…)` and `ControlInput.send` take instructions; the `report` of `BinOptions` is told
a `ControlReport`.
"""

from __future__ import annotations

from framework.membership.members import Members, WorkerId
from routing.bins import BinId, Bins
from routing.commands import (
    Bootstrap,
    Configuration,
    Control,
    Handover,
    Instruction,
    Map,
    Move,
    Noop,
    Refused,
    Retire,
    Retirement,
    Weigh,
    Weighing,
)
from routing.router_operator import ControlReport, Restored
from routing.routing_table import Installation, Ship

__all__ = [
    "BinId",
    "Bins",
    "Bootstrap",
    "Configuration",
    "Control",
    "ControlReport",
    "Handover",
    "Installation",
    "Instruction",
    "Map",
    "Members",
    "Move",
    "Noop",
    "Refused",
    "Restored",
    "Retire",
    "Retirement",
    "Ship",
    "Weigh",
    "Weighing",
    "WorkerId",
]
