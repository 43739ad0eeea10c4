"""The stream: what jobs are written in.

Each method is an operator in a file of its own; this is their table of contents.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from framework.dataflow.scope import Outlet, Scope
from operators.capture.capture import capture
from operators.capture.extract import extract
from operators.core.accumulate import accumulate
from operators.core.attempt import attempt
from operators.core.binary import binary, binary_frontier, binary_notify
from operators.core.branch import branch, branch_when
from operators.core.broadcast import broadcast
from operators.core.concat import concat
from operators.core.connect_loop import connect_loop
from operators.core.count import count
from operators.core.delay import delay, delay_batch
from operators.core.enter import enter
from operators.core.exchange import deal, exchange, exchange_by
from operators.core.filter import filter
from operators.core.flat_map import flat_map, flat_map_batch
from operators.core.inspect import inspect, inspect_batch, inspect_time
from operators.core.iterate import iterate
from operators.core.leave import leave
from operators.core.map import map
from operators.core.partition import partition
from operators.core.probe import probe
from operators.core.region import region
from operators.core.sink import sink
from operators.core.to_columns import to_columns
from operators.core.unary import unary, unary_frontier, unary_notify
from operators.core.verify import verify
from operators.stateful.aggregate import aggregate
from operators.stateful.distribute import distribute
from operators.stateful.session_window import session_window
from operators.stateful.sliding_window import sliding_window
from operators.stateful.state_machine import state_machine
from operators.stateful.stateful_binary import stateful_binary, stateful_binary_input
from operators.stateful.stateful_join import stateful_join
from operators.stateful.stateful_state_machine import stateful_state_machine
from operators.stateful.stateful_unary import stateful_unary, stateful_unary_input
from operators.stateful.tumbling_window import tumbling_window

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
    flat_map_batch = flat_map_batch
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
