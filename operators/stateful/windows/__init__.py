"""Windows in event time: what is counted together, when it is known, and what comes too late."""

from operators.stateful.windows.aggregation import Aggregation, collecting, counting, reducing
from operators.stateful.windows.clock import Clock, EpochClock, WatermarkClock
from operators.stateful.windows.result import Late, Pane, Window, Windowed, WindowResult

__all__ = [
    "Aggregation",
    "Clock",
    "EpochClock",
    "Late",
    "Pane",
    "WatermarkClock",
    "Window",
    "WindowResult",
    "Windowed",
    "collecting",
    "counting",
    "reducing",
]
