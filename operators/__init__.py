"""The vocabulary of jobs."""

from framework.launch.execute import example, execute, execute_from_args
from framework.progress.order import Product
from framework.worker.worker import Worker
from operators.concatenate import concatenate
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
from operators.replay import replay
from operators.source import source
from operators.stream import Stream
from operators.to_stream import to_stream
from operators.unordered_input import UnorderedInput, unordered_input

__all__ = [
    "DISCARD",
    "EventLog",
    "EventReader",
    "EventWriter",
    "Extracted",
    "Flow",
    "Input",
    "Job",
    "Probe",
    "Product",
    "Stream",
    "UnorderedInput",
    "Worker",
    "concatenate",
    "empty",
    "example",
    "execute",
    "execute_from_args",
    "feedback",
    "iterator_source",
    "replay",
    "source",
    "to_stream",
    "unordered_input",
]
