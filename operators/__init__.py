"""The vocabulary of jobs."""

from framework.dataflow.scope import Scope
from framework.launch.config import Config, add_flags
from framework.launch.execute import example, execute, execute_from_args
from framework.progress.order import Product, Time
from framework.wire import codec
from framework.worker.worker import Worker
from operators.capture.event_file import EventReader, EventWriter
from operators.capture.event_log import EventLog
from operators.capture.extract import Extracted
from operators.capture.replay import replay
from operators.core.concat import concatenate
from operators.core.empty import empty
from operators.core.feedback import feedback
from operators.core.probe import Probe
from operators.core.source import source
from operators.input.control_input import ControlInput
from operators.input.input import Input
from operators.input.iterator_source import iterator_source
from operators.input.to_stream import to_stream
from operators.input.unordered_input import UnorderedInput, unordered_input
from operators.job.flow import Flow
from operators.job.job import Job
from operators.job.steward import Steward
from operators.stateful.fold import DISCARD
from operators.stateful.process import Process, Timers, process
from operators.stateful.stateful_join import WithinEventTime
from operators.stateful.windows import (
    Aggregation,
    Clock,
    EpochClock,
    Late,
    Pane,
    WatermarkClock,
    Window,
    Windowed,
    WindowResult,
    collecting,
    counting,
    reducing,
)
from operators.stream import Stream
from routing.hashing import stable_hash
from routing.options import BinOptions
from routing.state.memory import MemoryStore
from routing.state.per_bin import Bin
from routing.state.rocks import RocksMaker, RocksStore

__tracebackhide__ = True

__all__ = [
    "Aggregation",
    "Bin",
    "BinOptions",
    "Clock",
    "Config",
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
    "RocksMaker",
    "RocksStore",
    "Scope",
    "Steward",
    "Stream",
    "Time",
    "Timers",
    "UnorderedInput",
    "WatermarkClock",
    "Window",
    "WindowResult",
    "Windowed",
    "WithinEventTime",
    "Worker",
    "add_flags",
    "codec",
    "collecting",
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
    "stable_hash",
    "to_stream",
    "unordered_input",
]
