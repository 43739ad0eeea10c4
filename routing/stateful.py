"""Ties F and S together: streams in, a stream out, and in between bins that move while records flow.

::

    data ────────▶ F ──── by bin ────▶ S ────▶ output
    control ─────▶ F ─ state, direct ─▶ S        │
                   F ◀── acks, direct ── S        │
                   F ◀─────── feedback ───────────┘

The feedback edge tells F how far S's output has come, on all workers; its records are dropped. Neither it nor the
acknowledgements can result in anything at F's outputs, so there is no loop in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Direct, Fixed, Pipeline
from framework.dataflow.scope import Outlet
from framework.errors import GraphError
from framework.membership import WorkerId
from routing.bins import Bins
from routing.forwarder import ByBin, Forwarder, Inputs, Outputs, Report
from routing.hashing import stable_hash
from routing.host import Host, Logic
from routing.migration import CHUNK_BYTES_MAX, IN_FLIGHT_BYTES_MAX, Shipper
from routing.router import Router

Key = Callable[[Any], Any]


def ignore(report: Report) -> None:
    """What becomes of control commands unless someone wants to know."""


@dataclass(frozen=True, slots=True)
class OnBins:
    """Place an operator's keys on bins that control commands can move."""

    control: Outlet
    bins: Bins = field(default_factory=Bins)
    chunk_bytes_max: int = CHUNK_BYTES_MAX
    in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX
    report: Callable[[Report], None] = ignore

    def place(self, streams: Sequence[tuple[Outlet, Key]], logic: Logic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`."""
        scope = streams[0][0].scope
        if scope.domain.depth:
            raise GraphError(
                f"operator {name!r} keeps bins and works in a dataflow's outermost scope, not in iterations"
            )
        worker = scope.worker
        router = Router(worker.id, self.bins.initial_owners(worker.members.workers))
        shipper = Shipper(
            worker.id,
            logic.shelf,
            chunk_bytes_max=self.chunk_bytes_max,
            in_flight_bytes_max=self.in_flight_bytes_max,
        )
        forward = scope.operator(f"{name}: route")
        data_in = [forward.input(outlet, Pipeline()) for outlet, _ in streams]
        control_in = forward.input(self.control, Pipeline())
        feedback_in = forward.input(None, Pipeline())
        acks_in = forward.input(None, Pipeline())
        routed = [forward.output() for _ in streams]
        state_out, state = forward.output()
        data_out = [output for output, _ in routed]
        _connect_only(
            forward.connect,
            [*data_in, control_in, feedback_in, acks_in],
            [*data_out, state_out],
            {*zip(data_in, data_out, strict=True), (control_in, state_out)},
            scope.domain.identity,
        )

        host_builder = scope.operator(name)
        host_in = [
            host_builder.input(outlet, ByBin(router, self.bins, key))
            for (_, outlet), (_, key) in zip(routed, streams, strict=True)
        ]
        state_in = host_builder.input(state, Direct(_target))
        results_out, results = host_builder.output()
        acks_out, acks = host_builder.output()
        for handle in host_in:
            host_builder.connect(handle, acks_out, [])
        host = Host(host_builder.operator, logic, host_in, state_in, results_out, acks_out)

        forward.attach(feedback_in, results, Pipeline())
        forward.attach(acks_in, acks, Direct(_target))
        forwarder = Forwarder(
            forward.operator,
            router,
            shipper,
            Inputs(data_in, control_in, feedback_in, acks_in),
            Outputs(data_out, state_out),
            members=lambda: worker.members,
            after_shipping=host.release,
            report=self.report,
        )
        forward.build(lambda _: forwarder.activate)
        host_builder.build(lambda _: host.activate)
        return results


@dataclass(frozen=True, slots=True)
class ByHash:
    """Fix each key to a worker by its hash: the baseline that bins are measured against."""

    def place(self, streams: Sequence[tuple[Outlet, Key]], logic: Logic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`."""
        builder = streams[0][0].scope.operator(name)
        data = [builder.input(outlet, Fixed(_by_hash(key))) for outlet, key in streams]
        output, results = builder.output()
        host = Host(builder.operator, logic, data, None, output, None)
        builder.build(lambda _: host.activate)
        return results


Placement = OnBins | ByHash


def _by_hash(key: Key) -> Callable[[Any], int]:
    return lambda record: stable_hash(key(record))


def _target(message: Any) -> WorkerId:
    worker: WorkerId = message.target
    return worker


def _connect_only(
    connect: Callable[[InputHandle, OutputHandle, list[Any]], None],
    inputs: Sequence[InputHandle],
    outputs: Sequence[OutputHandle],
    paths: set[tuple[InputHandle, OutputHandle]],
    identity: Any,
) -> None:
    """Of all pairs of inputs and outputs, only these have a path."""
    for input in inputs:
        for output in outputs:
            connect(input, output, [identity] if (input, output) in paths else [])
