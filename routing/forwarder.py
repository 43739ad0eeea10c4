"""F: sends every record to the owner of its bin at the record's time, and ships bins that change owners.

Records wait until no control command at their time can still arrive. A command's configuration retains a capability on
the state output from its arrival on; it is installed once S's output frontier, seen through the feedback edge, has
reached its time, and the capability goes when the last of the bins has left. Decisions are the `Router`'s, the
`Compiler`'s and the `Shipper`'s; this drives them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle, Pusher
from framework.dataflow.operator import BuiltOperator
from framework.dataflow.pact import Channel, deliver
from framework.membership import Members, WorkerId
from framework.progress.order import Time
from routing.bins import Bins
from routing.commands import Compiler, Configuration, Handover, Refused
from routing.hashing import stable_hash
from routing.migration import Shipper
from routing.router import Installation, Router

Report = Configuration | Handover | Refused | Installation
"""What became of control commands: accepted, refused, installed."""


@dataclass(frozen=True, slots=True)
class ByBin:
    """The pact between F and S: each record goes to the owner of its bin at its time."""

    router: Router
    bins: Bins
    key: Callable[[Any], Any]

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        router, shift, key = self.router, self.bins.shift, self.key

        def push(time: Time, rows: Any) -> None:
            """Hot path: with one owner of everything, no record is looked at."""
            assert isinstance(time, int), time
            sole = router.sole_owner_at(time)
            if sole is not None:
                deliver(channel, sole, time, rows)
                return
            owners = router.table_at(time)
            parts: dict[WorkerId, list[Any]] = {}
            for record in rows:
                owner = owners[stable_hash(key(record)) >> shift]
                part = parts.get(owner)
                if part is None:
                    parts[owner] = [record]
                else:
                    part.append(record)
            for worker, part in parts.items():
                deliver(channel, worker, time, part)

        return push


@dataclass(frozen=True, slots=True)
class Inputs:
    """What comes to F."""

    data: Sequence[InputHandle]
    control: InputHandle
    feedback: InputHandle
    acks: InputHandle


@dataclass(frozen=True, slots=True)
class Outputs:
    """What leaves F."""

    data: Sequence[OutputHandle]
    state: OutputHandle


class Forwarder:
    """One operator's routing on one worker."""

    def __init__(
        self,
        operator: BuiltOperator,
        router: Router,
        shipper: Shipper,
        inputs: Inputs,
        outputs: Outputs,
        *,
        members: Callable[[], Members],
        after_shipping: Callable[[], None],
        report: Callable[[Report], None],
    ) -> None:
        self._operator = operator
        self._router = router
        self._shipper = shipper
        self._inputs = inputs
        self._outputs = outputs
        self._members = members
        self._after_shipping = after_shipping
        self._report = report
        self._compiler = Compiler()
        self._commanded: dict[int, Capability] = {}
        """Per time with commands that are not yet decided on, or a configuration not yet installed and shipped."""
        self._undecided: list[int] = []
        self._installed: list[int] = []
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
        self._decide()
        self._forward()
        self._install()
        self._ship()

    def _receive_commands(self) -> None:
        for capability, commands in self._inputs.control:
            time = capability.time
            assert isinstance(time, int), time
            for command in commands:
                self._compiler.add(time, command)
            if time not in self._commanded:
                self._commanded[time] = capability.retain(len(self._outputs.data))
                self._undecided.append(time)

    def _decide(self) -> None:
        """Compile the commands of every time that no further command can come for."""
        frontier = self._inputs.control.frontier
        for time in sorted(self._undecided):
            if frontier.less_equal(time):
                return
            self._undecided.remove(time)
            configured = False
            for decision in self._compiler.compile(
                time, self._router.table_at(time), self._members().workers, uninstalled=bool(self._router.pending)
            ):
                self._report(decision)
                if isinstance(decision, Configuration):
                    self._router.announce(decision)
                    configured = True
            if not configured:
                self._commanded.pop(time).drop()

    def _forward(self) -> None:
        """Pass records on, unless a command at their time can still arrive."""
        frontier = self._inputs.control.frontier
        for early, handle, output in zip(self._early, self._inputs.data, self._outputs.data, strict=True):
            for time in sorted(early):
                if frontier.less_equal(time):
                    break
                self._operator.time = time
                capability, waiting = early.pop(time)
                with capability:
                    for rows in waiting:
                        output.session(capability).give_container(rows)
            port = self._outputs.data.index(output)
            for arrived, rows in handle:
                time_ = arrived.time
                assert isinstance(time_, int), time_
                if not frontier.less_equal(time_):
                    output.session(arrived).give_container(rows)
                elif time_ in early:
                    early[time_][1].append(rows)
                else:
                    early[time_] = arrived.retain(port), [rows]

    def _install(self) -> None:
        frontier = self._inputs.feedback.frontier
        for installation in self._router.install(lambda time: not frontier.less_than(time)):
            self._report(installation)
            for ship in installation.ships:
                self._shipper.ship(installation.time, ship.bin_id, ship.target)
            self._installed.append(installation.time)

    def _ship(self) -> None:
        for time, message in self._shipper.due():
            self._outputs.state.session(self._commanded[time]).give(message)
        self._after_shipping()
        shipping_at = self._shipper.shipping_at()
        pending = set(self._router.pending)
        for time in list(self._installed):
            if time != shipping_at and time not in pending and (shipping_at is None or time < shipping_at):
                self._installed.remove(time)
                if time in self._commanded:
                    self._commanded.pop(time).drop()

    def _give_up(self) -> None:
        for capability in self._commanded.values():
            capability.drop()
        for early in self._early:
            for capability, _ in early.values():
                capability.drop()
            early.clear()
        self._commanded.clear()
