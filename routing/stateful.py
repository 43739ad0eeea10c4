"""Ties F and S together: streams in, a stream out, and in between bins that move while records flow.

::

    data ────────▶ F ──── by bin ────▶ S ────▶ output
    control ─────▶ F ─ state, direct ─▶ S        │
                   F ◀── acks, direct ── S        │
                   F ◀─────── feedback ───────────┘
                   F ─ handover, direct ▶ F

The feedback edge tells F how far S's output has come, on all workers; its records are dropped. Neither it nor the
acknowledgements can result in anything at F's outputs, so there is no loop in time. By the last edge the F of a worker
that joins receives its routing state; what it receives may result in bins shipped, and in a handover at a later time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Direct, Fixed, Pipeline
from framework.dataflow.scope import Outlet
from framework.errors import GraphError
from framework.membership import WorkerId
from routing.bins import Bins
from routing.commands import Compiler
from routing.forwarder import ByBin, Forwarder, Inputs, Outputs
from routing.hashing import stable_hash
from routing.host import Host, Logic
from routing.migration import Shipper
from routing.options import BinOptions
from routing.registry import BinnedOperator, enlist
from routing.router import Router

Key = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class OnBins:
    """Place an operator's keys on bins that control commands can move."""

    control: Outlet
    options: BinOptions
    implied: bool = False
    """Whether `control` is a job's own, which the operator listens to without having been told."""

    def place(self, streams: Sequence[tuple[Outlet, Key]], logic: Logic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`, which are of a scope whose times are epochs."""
        scope, options, bins = streams[0][0].scope, self.options, Bins(self.options.bins)
        worker = scope.worker
        if worker.peers > 1 and not self.control.scope.reaches_all(self.control):
            raise GraphError(
                f"operator {name!r} would hear of the commands that its own worker sends only, and workers would "
                f"disagree on who owns what; bring them to all: control=control.stream(scope).broadcast()"
            )
        founders = worker.rescaling.founders
        joining = worker.id not in founders
        missing = set(founders) - {*worker.members.workers}
        if missing and not joining:
            raise GraphError(
                f"operator {name!r} begins with its bins on the workers that the job began with, and {sorted(missing)} "
                f"of these have left; build dataflows with bins before workers leave"
            )
        router = Router(worker.id, [] if joining else bins.initial_owners(founders))
        compiler = Compiler(set() if joining else set(founders))
        shipper = Shipper(
            worker.id,
            logic.shelf,
            name=name,
            chunk_bytes_max=options.chunk_bytes_max,
            in_flight_bytes_max=options.in_flight_bytes_max,
        )
        forward = scope.operator(f"{name}: route")
        data_in = [forward.input(outlet, Pipeline()) for outlet, _ in streams]
        control_in = forward.input(self.control, Pipeline())
        feedback_in = forward.input(None, Pipeline())
        acks_in = forward.input(None, Pipeline())
        handover_in = forward.input(None, Direct(_target))
        routed = [forward.output() for _ in streams]
        state_out, state = forward.output()
        handover_out, handover = forward.output()
        data_out = [output for output, _ in routed]
        _connect_only(
            forward.connect,
            [*data_in, control_in, feedback_in, acks_in, handover_in],
            [*data_out, state_out, handover_out],
            {
                *zip(data_in, data_out, strict=True),
                (control_in, state_out),
                (control_in, handover_out),
                (handover_in, state_out),
            },
            scope.domain.identity,
        )
        forward.connect(handover_in, handover_out, [1])
        forward.attach(handover_in, handover, Direct(_target))

        host_builder = scope.operator(name)
        host_in = [
            host_builder.input(outlet, ByBin(router, bins, key))
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
            compiler,
            shipper,
            Inputs(data_in, control_in, feedback_in, acks_in, handover_in),
            Outputs(data_out, state_out, handover_out),
            members=lambda: worker.members,
            after_shipping=host.release,
            report=options.report,
        )
        forward.build(lambda _: forwarder.activate)
        worker.rescaling.objections.append(forwarder.objection)
        forward.operator.on_shut_down.append(lambda: worker.rescaling.objections.remove(forwarder.objection))
        host_builder.build(lambda _: host.activate)
        held = host_builder.operator
        binned = BinnedOperator(
            name,
            held.path,
            bins,
            router,
            keys_per_bin=logic.shelf.bins,
            shipped_bytes=lambda: shipper.shipped_bytes,
            received_bytes=lambda: host.received_bytes,
            eligible=lambda: frozenset(compiler.eligible),
            decided=lambda: compiler.through,
            complete=forwarder.complete,
            implied=self.implied,
        )
        enlist(worker, held, binned)
        return results


@dataclass(frozen=True, slots=True)
class ByHash:
    """Leave each bin where `OnBins` begins with it: the baseline that moving is measured against."""

    bins: Bins

    def place(self, streams: Sequence[tuple[Outlet, Key]], logic: Logic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`."""
        builder = streams[0][0].scope.operator(name)
        data = [builder.input(outlet, Fixed(_bin_of(self.bins, key))) for outlet, key in streams]
        output, results = builder.output()
        host = Host(builder.operator, logic, data, None, output, None)
        builder.build(lambda _: host.activate)
        return results


Placement = OnBins | ByHash


def _bin_of(bins: Bins, key: Key) -> Callable[[Any], int]:
    """A route that the pact takes modulo the workers: the first owner of a bin. Hot path."""
    shift = bins.shift
    return lambda record: stable_hash(key(record)) >> shift


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
