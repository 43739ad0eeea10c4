"""Wires F and S: streams in, a stream out, and in between bins that move while records flow.

`OnBins` does; `ByHash` leaves F out, and each bin with its first owner. Which of the two an operator has is decided by
`operators.stateful.placement`.

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
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Any, Protocol

from framework.dataflow.builder import OperatorBuilder
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Direct, Fixed, Pact, Pipeline
from framework.dataflow.scope import Outlet
from framework.dataflow.worker_context import WorkerContext
from framework.errors import GraphError
from routing.bins import BinId, Bins
from routing.commands import Compiler
from routing.hashing import stable_hash
from routing.load import LoadMeter, Sampling
from routing.migration.transfer import Shipper
from routing.options import BinOptions
from routing.registry import BinnedOperator, enlist
from routing.router_operator import ByBin, Combine, Inputs, Outputs, RouterCores, RouterOperator
from routing.routing_table import RoutingTable
from routing.state_operator import StateLogic, StateOperator

Key = Callable[[Any], Any]

SAMPLED_EVERY = 1024
"""Of this many records of rows, `SAMPLED_ROWS` are hashed to tell the load of bins: a hundredth of their work."""
SAMPLED_ROWS = 8

_TARGET = attrgetter("target")
"""Where F and S send what is for one worker."""


class Keying(Protocol):
    """The pacts that bring the records of a stream to the workers of their keys: of rows, or of columns."""

    @property
    def combine(self) -> Combine | None:
        """What pre-aggregates them before they are sent, if anything does."""

    def sampling(self, bins: Bins) -> Sampling:
        """How to tell the bins of some of them."""

    def by_bin(self, table: RoutingTable, bins: Bins) -> Pact:
        """To the owner of a record's bin at its time."""

    def by_hash(self, bins: Bins) -> Pact:
        """To the first owner of a record's bin."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """A function gives a record's key."""

    key: Key

    combine = None

    def sampling(self, bins: Bins) -> Sampling:
        bin_of, turns = _bin_of(bins, self.key), count()

        def sample(rows: Any) -> list[BinId]:
            """A few of them, spread out; not always the same ones, since data may have a period."""
            apart = max(1, len(rows) // SAMPLED_ROWS)
            return [BinId(bin_of(record)) for record in rows[next(turns) % apart :: apart]]

        return Sampling(sample, SAMPLED_EVERY)

    def by_bin(self, table: RoutingTable, bins: Bins) -> Pact:
        return ByBin(table, bins, self.key)

    def by_hash(self, bins: Bins) -> Pact:
        return Fixed(_bin_of(bins, self.key))


@dataclass(frozen=True, slots=True)
class OnBins:
    """Place an operator's keys on bins that control commands can move."""

    control: Outlet
    options: BinOptions
    implied: bool = False
    """Whether `control` is a job's own, which the operator listens to without having been told."""

    def place(self, streams: Sequence[tuple[Outlet, Keying]], logic: StateLogic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`, which are of a scope whose times are epochs."""
        scope, bins = streams[0][0].scope, Bins(self.options.bins)
        worker = scope.worker
        self._check(worker, name)
        logic.bin_state.must_travel(name)
        load = LoadMeter([keying.sampling(bins) for _, keying in streams], worker.events.clock)
        cores = self._cores(worker, logic, load, name)
        f = _RouterPorts.build(scope.operator(f"{name}: route"), [outlet for outlet, _ in streams], self.control)
        s = _StatePorts.build(scope.operator(name), f, [keying.by_bin(cores.table, bins) for _, keying in streams])
        f.builder.attach(f.inputs.feedback, s.results, Pipeline())
        f.builder.attach(f.inputs.acks, s.acks, Direct(_TARGET))
        state_operator = StateOperator(
            s.builder.operator, logic, s.data_in, s.state_in, s.results_out, s.acks_out, load
        )
        router_operator = RouterOperator(
            f.builder.operator,
            cores,
            f.inputs,
            f.outputs,
            combine=[keying.combine for _, keying in streams],
            members=lambda: worker.members,
            after_shipping=state_operator.release,
            weigh=state_operator.weigh,
            report=self.options.report,
        )
        f.builder.build(lambda _: router_operator.activate)
        s.builder.build(lambda _: state_operator.activate)
        objection = partial(router_operator.objection, commanded=self.implied)
        f.builder.operator.on_shut_down.append(worker.object_to_leaving(objection))
        binned = BinnedOperator(name, self.options.group, bins, self.implied, cores, router_operator, state_operator)
        enlist(worker, s.builder.operator, binned)
        return s.results

    def _cores(self, worker: WorkerContext, logic: StateLogic, load: LoadMeter, name: str) -> RouterCores:
        """What F decides with: a worker that joins knows neither owners nor commands until it is told."""
        options, founders = self.options, worker.founders
        known = founders if worker.id in founders else ()
        return RouterCores(
            RoutingTable(worker.id, Bins(options.bins).initial_owners(known) if known else []),
            Compiler(set(known), options.group),
            Shipper(
                worker.id,
                logic.bin_state,
                name=name,
                load=load,
                chunk_bytes_max=options.chunk_bytes_max,
                in_flight_bytes_max=options.in_flight_bytes_max,
            ),
        )

    def _check(self, worker: WorkerContext, name: str) -> None:
        """Raise if commands would not reach all workers, or bins would begin on one that has left."""
        if worker.peers > 1 and not self.control.scope.reaches_all(self.control):
            raise GraphError(
                f"operator {name!r} would hear of the commands that its own worker sends only, and workers would "
                f"disagree on who owns what; bring them to all: control=control.stream(scope).broadcast()"
            )
        founders = worker.founders
        missing = set(founders) - {*worker.members.workers}
        if missing and worker.id in founders:
            raise GraphError(
                f"operator {name!r} begins with its bins on the workers that the job began with, and {sorted(missing)} "
                f"of these have left; build dataflows with bins before workers leave"
            )


@dataclass(frozen=True, slots=True)
class ByHash:
    """Leave each bin where `OnBins` begins with it: the baseline that moving is measured against."""

    bins: Bins

    def place(self, streams: Sequence[tuple[Outlet, Keying]], logic: StateLogic, name: str) -> Outlet:
        """Run `logic` on the records of `streams`."""
        founders = streams[0][0].scope.worker.founders
        combined = [
            _combine(outlet, keying.combine, name) if keying.combine and len(founders) > 1 else outlet
            for outlet, keying in streams
        ]
        builder = streams[0][0].scope.operator(name)
        data = [
            builder.input(outlet, keying.by_hash(self.bins))
            for outlet, (_, keying) in zip(combined, streams, strict=True)
        ]
        output, results = builder.output()
        state_operator = StateOperator(builder.operator, logic, data, None, output, None)
        builder.build(lambda _: state_operator.activate)
        return results


Placement = OnBins | ByHash


@dataclass(frozen=True, slots=True)
class _RouterPorts:
    """F's ports."""

    builder: OperatorBuilder
    inputs: Inputs
    outputs: Outputs
    routed: list[Outlet]
    state: Outlet

    @staticmethod
    def build(builder: OperatorBuilder, streams: Sequence[Outlet], control: Outlet) -> _RouterPorts:
        data_in = [builder.input(outlet, Pipeline()) for outlet in streams]
        control_in = builder.input(control, Pipeline())
        feedback_in = builder.input(None, Pipeline())
        acks_in = builder.input(None, Pipeline())
        handover_in = builder.input(None, Direct(_TARGET))
        routed = [builder.output() for _ in streams]
        state_out, state = builder.output()
        handover_out, handover = builder.output()
        data_out = [output for output, _ in routed]
        _connect_only(
            builder.connect,
            [*data_in, control_in, feedback_in, acks_in, handover_in],
            [*data_out, state_out, handover_out],
            {
                *zip(data_in, data_out, strict=True),
                (control_in, state_out),
                (control_in, handover_out),
                (handover_in, state_out),
            },
            builder.scope.domain.identity,
        )
        builder.connect(handover_in, handover_out, [1])
        builder.attach(handover_in, handover, Direct(_TARGET))
        return _RouterPorts(
            builder,
            Inputs(data_in, control_in, feedback_in, acks_in, handover_in),
            Outputs(data_out, state_out, handover_out),
            [outlet for _, outlet in routed],
            state,
        )


@dataclass(frozen=True, slots=True)
class _StatePorts:
    """S's ports."""

    builder: OperatorBuilder
    data_in: list[InputHandle]
    state_in: InputHandle
    results_out: OutputHandle
    results: Outlet
    acks_out: OutputHandle
    acks: Outlet

    @staticmethod
    def build(builder: OperatorBuilder, f: _RouterPorts, pacts: Sequence[Pact]) -> _StatePorts:
        data_in = [builder.input(outlet, pact) for outlet, pact in zip(f.routed, pacts, strict=True)]
        state_in = builder.input(f.state, Direct(_TARGET))
        results_out, results = builder.output()
        acks_out, acks = builder.output()
        for handle in data_in:
            builder.connect(handle, acks_out, [])
        return _StatePorts(builder, data_in, state_in, results_out, results, acks_out, acks)


def _combine(outlet: Outlet, combine: Combine, name: str) -> Outlet:
    """A stream's containers, each combined; in an operator of its own, since progress counts what that sends."""
    builder = outlet.scope.operator(f"{name}: combine")
    input = builder.input(outlet, Pipeline())
    output, combined = builder.output()

    def logic() -> None:
        for capability, rows in input:
            output.session(capability).give_container(combine(rows))

    builder.build(lambda _: logic, notify=False)
    return combined


def _bin_of(bins: Bins, key: Key) -> Callable[[Any], int]:
    """A route that the pact takes modulo the workers: the first owner of a bin. Hot path."""
    shift = bins.shift
    return lambda record: stable_hash(key(record)) >> shift


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
