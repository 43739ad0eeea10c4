"""F, Megaphone's router operator: sends every record to the owner of its bin at its time, and ships bins that move.

Records wait until no control command at their time can still arrive. A command's configuration retains a capability on
the state output from its arrival on; it is installed once S's output frontier, seen through the feedback edge, has
reached its time, and the capability is dropped when the last of the bins has left. Decisions are the `RoutingTable`'s,
the `Compiler`'s and the `Shipper`'s; this drives them. `routing.placement` wires F to S.

On a worker that joined, F knows neither owners nor commands: it holds back what comes until the server of its
`Bootstrap` has handed over both, at the time of that command. The server may have configurations that wait to be
installed; they concern no bin of the joiner, which may own bins after its `Bootstrap` only, so it need not ship any. A
command that was sent before the joiner was a member has reached the server before its `Bootstrap` did, and comes with
the handover, whose capability covers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle, OutputHandle, Pusher
from framework.dataflow.operator import BuiltOperator
from framework.dataflow.pact import Channel, deliver
from framework.error_context import attach_record
from framework.membership.members import Members, WorkerId
from framework.progress.order import EPOCH_MAX, Time
from framework.wire import codec
from routing.bins import BinId, Bins
from routing.commands import (
    Bootstrap,
    Compiler,
    CompilerState,
    Configuration,
    Control,
    Handover,
    Refused,
    Retirement,
    Weigh,
    Weighing,
)
from routing.errors import NeverBootstrapped
from routing.hashing import stable_hash
from routing.load import BinWeight, Weighed, WeighedBins, add_up
from routing.migration.transfer import Shipper
from routing.routing_table import Installation, RoutingState, RoutingTable


@dataclass(frozen=True, slots=True)
class Restored:
    """This worker, which joined, now knows who owns what; since the time of its `Bootstrap`."""

    time: int


Combine = Callable[[Any], Any]
"""From a container of records to one that is sent instead where there are several owners: pre-aggregated, say."""

ControlReport = Configuration | Handover | Retirement | Weighing | Refused | Installation | Restored
"""What became of control commands: accepted, refused, installed."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What a joiner's F must know."""

    target: WorkerId
    routing: RoutingState
    commands: CompilerState


codec.register(HandedOver, "routing.HandedOver")


@dataclass(frozen=True, slots=True)
class ByBin:
    """The pact between F and S: each record goes to the owner of its bin at its time."""

    table: RoutingTable
    bins: Bins
    key: Callable[[Any], Any]

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        table, shift, key = self.table, self.bins.shift, self.key

        def push(time: Time, rows: Any) -> None:
            """Hot path: with one owner of everything, no record is looked at."""
            assert isinstance(time, int), time
            sole = table.sole_owner_at(time)
            if sole is not None:
                deliver(channel, sole, time, rows)
                return
            owners = table.owners_at(time)
            parts: dict[WorkerId, list[Any]] = {}
            record: Any = None
            try:
                for record in rows:
                    owner = owners[stable_hash(key(record)) >> shift]
                    part = parts.get(owner)
                    if part is None:
                        parts[owner] = [record]
                    else:
                        part.append(record)
            except Exception as error:
                attach_record(error, record)
                raise channel.failure(time) from error
            for worker, part in parts.items():
                deliver(channel, worker, time, part)

        return push


@dataclass(frozen=True, slots=True)
class Inputs:
    """F's inputs."""

    data: Sequence[InputHandle]
    control: InputHandle
    feedback: InputHandle
    acks: InputHandle
    handover: InputHandle


@dataclass(frozen=True, slots=True)
class Outputs:
    """F's outputs."""

    data: Sequence[OutputHandle]
    state: OutputHandle
    handover: OutputHandle


@dataclass(frozen=True, slots=True)
class RouterCores:
    """What decides for F: where records go, what commands amount to, and which state leaves when."""

    table: RoutingTable
    compiler: Compiler
    shipper: Shipper


class RouterOperator:
    """F: one operator's routing on one worker."""

    def __init__(
        self,
        operator: BuiltOperator,
        cores: RouterCores,
        inputs: Inputs,
        outputs: Outputs,
        *,
        combine: Sequence[Combine | None],
        members: Callable[[], Members],
        after_shipping: Callable[[], None],
        weigh: Callable[[], Mapping[BinId, BinWeight]],
        report: Callable[[ControlReport], None],
    ) -> None:
        self._operator = operator
        self._table = cores.table
        self._compiler = cores.compiler
        self._shipper = cores.shipper
        self._inputs = inputs
        self._outputs = outputs
        self._combine = combine
        self._members = members
        self._after_shipping = after_shipping
        self._weigh = weigh
        self._report = report
        self._state_port = len(outputs.data)
        self._handover_port = self._state_port + 1
        self._commanded: dict[int, Capability] = {}
        """Per time with commands that are not yet decided on, or a configuration not yet installed and shipped."""
        self._handovers: dict[int, Capability] = {}
        """The right to tell the F of another worker, per time with a `Bootstrap` or `Weigh` not yet decided on."""
        self._told: dict[int, list[Weighed]] = {}
        """What other workers tell of bins, by time, until all have."""
        self._weighed: WeighedBins | None = None
        self.on_progress: list[Callable[[], None]] = []
        """Called whenever this operator has done what there was to do: commands may have been decided on."""
        self._undecided: list[int] = []
        self._installed: list[int] = []
        self._retired_at: int | None = None
        self._early: list[dict[int, tuple[Capability, list[Any]]]] = [{} for _ in inputs.data]
        operator.on_shut_down.append(self._give_up)

    def activate(self) -> None:
        """Do what there is to do."""
        for _ in self._inputs.feedback:
            pass
        for _, acks in self._inputs.acks:
            for ack in acks:
                self._shipper.acknowledged(ack.size)
        self._receive_commands()
        self._take_told()
        if self._table.ready:
            self._decide()
        self._forward()
        if not self._table.ready:
            self._check_bootstrap()
        self._install()
        self._ship()
        for callback in self.on_progress:
            callback()

    def _receive_commands(self) -> None:
        for capability, commands in self._inputs.control:
            time = capability.time
            assert isinstance(time, int), time
            for command in commands:
                self._compiler.add(time, command)
            self._expect(time, capability, commands)

    def _expect(self, time: int, capability: InputCapability, commands: Sequence[Any]) -> None:
        """Keep the capabilities that acting on commands at `time` takes."""
        if time not in self._commanded:
            self._commanded[time] = capability.delayed(time, self._state_port)
            self._undecided.append(time)
        if time not in self._handovers and any(map(_is_answered, commands)):
            self._handovers[time] = capability.delayed(time, self._handover_port)

    def _take_told(self) -> None:
        """Take what other workers tell this one's F: a joiner's routing state and commands, and what bins weigh."""
        for capability, messages in self._inputs.handover:
            at = capability.time
            assert isinstance(at, int), at
            for message in messages:
                if isinstance(message, Weighed):
                    self._told.setdefault(at, []).append(message)
                    continue
                if not self._table.restore(message.routing):
                    continue
                self._compiler.restore(message.commands)
                for time in [time for time in self._undecided if time <= at]:
                    self._undecided.remove(time)
                    self._drop(time)
                for time in self._compiler.times:
                    self._expect(time, capability, self._compiler.waiting(time))
                self._report(Restored(at))

    def _decide(self) -> None:
        """Compile the commands of every time that no further command can come for."""
        frontier = self._inputs.control.frontier
        for time in sorted(self._undecided):
            if frontier.less_equal(time):
                return
            self._undecided.remove(time)
            configured = False
            for decision in self._compiler.compile(time, self._table.owners_at(time), self._members().workers):
                self._report(decision)
                if isinstance(decision, Configuration):
                    self._table.announce(decision)
                    configured = True
                elif isinstance(decision, Retirement) and decision.worker == self._table.worker:
                    self._retired_at = time
                elif isinstance(decision, Handover) and decision.server == self._table.worker:
                    state = HandedOver(decision.joiner, self._table.state(), self._compiler.state())
                    self._outputs.handover.session(self._handovers[time]).give(state)
                elif isinstance(decision, Weighing):
                    self._outputs.handover.session(self._handovers[time]).give(self._weighed_here(decision.worker))
            if configured and time in self._handovers:
                self._handovers.pop(time).drop()
            elif not configured:
                self._drop(time)

    def _check_bootstrap(self) -> None:
        """Raise rather than wait for ever: records have come, and no command can still arrive."""
        if any(self._early) and not (
            self._inputs.control.frontier.frontier() or self._inputs.handover.frontier.frontier()
        ):
            raise NeverBootstrapped(
                f"worker {self._table.worker} joined and received records, but never a Bootstrap, and the control "
                f"stream has ended; send one after a worker has joined (`ControlInput.bootstrap`), before closing it"
            )

    def complete(self) -> int:
        """The least epoch that results may still come out at, on any worker."""
        return _least(self._inputs.feedback)

    def heard(self) -> int:
        """The least epoch at which another worker's F may still tell this one something."""
        return _least(self._inputs.handover)

    def weighed(self) -> WeighedBins | None:
        """What was last told of the bins, by all workers; None if they have not been weighed for this one."""
        frontier = self._inputs.handover.frontier
        told = [time for time in self._told if not frontier.less_equal(time)]
        if told:
            last = max(told)
            weights = [
                {bin_id: BinWeight(keys, size, rate) for bin_id, keys, size, rate in weighed.weights}
                for weighed in self._told[last]
            ]
            self._weighed = WeighedBins(last, add_up(weights))
            for time in told:
                del self._told[time]
        return self._weighed

    def _weighed_here(self, target: WorkerId) -> Weighed:
        weights = self._weigh()
        return Weighed(
            target,
            self._table.worker,
            tuple(
                (bin_id, weight.keys, weight.state_bytes, weight.records_per_s) for bin_id, weight in weights.items()
            ),
        )

    def objection(self, *, commanded: bool) -> str | None:
        """Why this worker cannot leave: until it has retired, and all that was before that is over.

        `commanded` says that the job sends what is missing; otherwise the reason tells what to send.
        """
        name, worker = self._operator.name.removesuffix(": route"), self._table.worker
        if not self._table.ready:
            remedy = "" if commanded else f"; send Bootstrap(server, {worker})"
            return f"operator {name!r} waits for its routing state{remedy}"
        owned = sum(owner == worker for owner in self._table.owners)
        if owned:
            remedy = "" if commanded else f"; a Steward does that, or send Moves and then Retire({worker})"
            return f"its {owned} bins of operator {name!r} move to the others first{remedy}"
        if self._retired_at is None:
            remedy = "" if commanded else f"; a Steward does that, or send Retire({worker})"
            return f"it has to retire from operator {name!r}, which may still move bins to it{remedy}"
        if self._inputs.feedback.frontier.less_than(self._retired_at) or self._shipper.in_flight_bytes:
            return f"operator {name!r} has not come to epoch {self._retired_at}, at which it retires"
        return None

    def _drop(self, time: int) -> None:
        self._commanded.pop(time).drop()
        if time in self._handovers:
            self._handovers.pop(time).drop()

    def _forward(self) -> None:
        """Send records, unless a command at their time can still arrive, or this worker knows no owners yet."""
        frontier, ready = self._inputs.control.frontier, self._table.ready
        for port, (early, handle) in enumerate(zip(self._early, self._inputs.data, strict=True)):
            for time in sorted(early):
                if not ready or frontier.less_equal(time):
                    break
                self._operator.time = time
                capability, waiting = early.pop(time)
                with capability:
                    for rows in waiting:
                        self._give(port, capability, time, rows)
            for arrived, rows in handle:
                time_ = arrived.time
                assert isinstance(time_, int), time_
                if ready and not frontier.less_equal(time_):
                    self._give(port, arrived, time_, rows)
                elif time_ in early:
                    early[time_][1].append(rows)
                else:
                    early[time_] = arrived.retain(port), [rows]

    def _give(self, port: int, capability: Capability | InputCapability, time: int, rows: Any) -> None:
        """Send records, or what they were combined to: progress counts what is given here, before it is partitioned."""
        combine = self._combine[port]
        if combine is not None and self._table.sole_owner_at(time) is None:
            rows = combine(rows)
        self._outputs.data[port].session(capability).give_container(rows)

    def _install(self) -> None:
        frontier = self._inputs.feedback.frontier
        for installation in self._table.install(lambda time: not frontier.less_than(time)):
            self._report(installation)
            for ship in installation.ships:
                self._shipper.ship(installation.time, ship.bin_id, ship.target)
            self._installed.append(installation.time)

    def _ship(self) -> None:
        for time, message in self._shipper.due():
            self._outputs.state.session(self._commanded[time]).give(message)
        self._after_shipping()
        shipping_at = self._shipper.shipping_at()
        pending = set(self._table.pending)
        for time in list(self._installed):
            if time != shipping_at and time not in pending and (shipping_at is None or time < shipping_at):
                self._installed.remove(time)
                if time in self._commanded:
                    self._commanded.pop(time).drop()

    def _give_up(self) -> None:
        for capability in (*self._commanded.values(), *self._handovers.values()):
            capability.drop()
        for early in self._early:
            for capability, _ in early.values():
                capability.drop()
            early.clear()
        self._commanded.clear()
        self._handovers.clear()


def _least(input: InputHandle) -> int:
    return min((time for time in input.frontier.frontier() if isinstance(time, int)), default=EPOCH_MAX)


def _is_answered(command: Any) -> bool:
    """Whether it has one F tell another."""
    return isinstance(command, Control) and isinstance(command.instruction, Bootstrap | Weigh)
