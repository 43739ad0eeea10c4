"""The vocabulary of jobs."""

from framework.launch.execute import example, execute, execute_from_args
from framework.progress.order import Product
from framework.worker.worker import Worker
from operators.concatenate import concatenate
from operators.control_input import ControlInput
from operators.empty import empty
from operators.event_file import EventReader, EventWriter
from operators.event_log import EventLog
from operators.extract import Extracted
from operators.feedback import feedback
from operators.flow import Flow
from operators.fold import DISCARD
from operators.input import Input
from operators.iterator_source import iterator_source
from operators.job import Job
from operators.probe import Probe
from operators.process import Process, Timers, process
from operators.replay import replay
from operators.source import source
from operators.stateful_join import WithinEventTime
from operators.steward import Steward
from operators.stream import Stream
from operators.to_stream import to_stream
from operators.unordered_input import UnorderedInput, unordered_input
from operators.windows import (
    Aggregation,
    Clock,
    EpochClock,
    Late,
    Pane,
    WatermarkClock,
    Window,
    Windowed,
    WindowResult,
    counting,
    reducing,
)
from routing.options import BinOptions
from routing.store.memory import MemoryStore
from routing.store.rocks import RocksStore

__all__ = [
    "Aggregation",
    "BinOptions",
    "Clock",
    "ControlInput",
    "DISCARD",
    "EpochClock",
    "EventLog",
    "EventReader",
    "EventWriter",
    "Extracted",
    "Flow",
    "Input",
    "Job",
    "Late",
    "MemoryStore",
    "Pane",
    "Probe",
    "Process",
    "Product",
    "RocksStore",
    "Steward",
    "Stream",
    "Timers",
    "UnorderedInput",
    "WatermarkClock",
    "Window",
    "WindowResult",
    "Windowed",
    "WithinEventTime",
    "Worker",
    "concatenate",
    "counting",
    "empty",
    "example",
    "execute",
    "execute_from_args",
    "feedback",
    "iterator_source",
    "process",
    "reducing",
    "replay",
    "source",
    "to_stream",
    "unordered_input",
]
