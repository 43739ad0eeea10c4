"""What operators of one's own are made of: pacts, stashes, notificators, summaries, types of what logic is given."""

from __future__ import annotations

from framework.dataflow.builder import OperatorBuilder
from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.dataflow.operator import Activator
from framework.dataflow.pact import Broadcast, Exchange, Fixed, Pipeline
from framework.dataflow.stash import Stash
from framework.progress.summary import Local, Outer

__all__ = [
    "Activator",
    "Broadcast",
    "Capability",
    "Exchange",
    "Fixed",
    "InputCapability",
    "InputHandle",
    "Local",
    "Notificator",
    "OperatorBuilder",
    "Outer",
    "OutputHandle",
    "Pipeline",
    "Stash",
]
