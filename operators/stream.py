"""The stream: what jobs are written in.

Each method is an operator in a file of its own; this is their table of contents.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from framework.dataflow.scope import Outlet, Scope
from operators.accumulate import accumulate
from operators.aggregate import aggregate
from operators.attempt import attempt
from operators.binary import binary, binary_frontier, binary_notify
from operators.branch import branch, branch_when
from operators.broadcast import broadcast
from operators.capture import capture
from operators.concat import concat
from operators.connect_loop import connect_loop
from operators.count import count
from operators.delay import delay, delay_batch
from operators.distribute import distribute
from operators.enter import enter
from operators.exchange import deal, exchange, exchange_by
from operators.extract import extract
from operators.filter import filter
from operators.flat_map import flat_map
from operators.inspect import inspect, inspect_batch, inspect_time
from operators.iterate import iterate
from operators.leave import leave
from operators.map import map
from operators.partition import partition
from operators.probe import probe
from operators.region import region
from operators.session_window import session_window
from operators.sink import sink
from operators.sliding_window import sliding_window
from operators.state_machine import state_machine
from operators.stateful_binary import stateful_binary, stateful_binary_input
from operators.stateful_join import stateful_join
from operators.stateful_state_machine import stateful_state_machine
from operators.stateful_unary import stateful_unary, stateful_unary_input
from operators.to_columns import to_columns
from operators.tumbling_window import tumbling_window
from operators.unary import unary, unary_frontier, unary_notify
from operators.verify import verify

T = TypeVar("T")


class Stream(Generic[T]):
    """Records of type `T`, each at a time, spread over all workers."""

    __slots__ = ("outlet",)

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet

    @property
    def scope(self) -> Scope:
        """The scope that the stream belongs to."""
        return self.outlet.scope

    # Record by record
    map = map
    flat_map = flat_map
    filter = filter
    attempt = attempt
    inspect = inspect
    inspect_time = inspect_time
    inspect_batch = inspect_batch

    # Rows and columns
    to_columns = to_columns

    # Streams out of streams
    concat = concat
    partition = partition
    branch = branch
    branch_when = branch_when

    # Between workers
    exchange = exchange
    exchange_by = exchange_by
    deal = deal
    broadcast = broadcast

    # Within and across times
    delay = delay
    delay_batch = delay_batch
    count = count
    accumulate = accumulate
    aggregate = aggregate
    state_machine = state_machine

    # On bins that can move between workers
    stateful_state_machine = stateful_state_machine
    stateful_unary = stateful_unary
    stateful_unary_input = stateful_unary_input
    stateful_binary = stateful_binary
    stateful_binary_input = stateful_binary_input
    distribute = distribute
    tumbling_window = tumbling_window
    sliding_window = sliding_window
    session_window = session_window
    stateful_join = stateful_join

    # Nested scopes and loops
    enter = enter
    leave = leave
    region = region
    iterate = iterate
    connect_loop = connect_loop

    # Logic of one's own
    unary = unary
    unary_frontier = unary_frontier
    unary_notify = unary_notify
    binary = binary
    binary_frontier = binary_frontier
    binary_notify = binary_notify
    sink = sink

    # Looking at results
    probe = probe
    extract = extract
    capture = capture
    verify = verify
