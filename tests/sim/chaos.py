"""Operators and sources that do what their plan says, in as many ways as the framework allows.

Whether an answer is sent at once, retained, delayed, downgraded in steps, cloned, held until a notification, or left to
the garbage collector is up to the dice; that it is sent, and at which time, is not. Each checks for itself what it is
told: order per sender, routing, and that nothing arrives that its frontier or a notification excluded.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from random import Random

from framework.dataflow.builder import OperatorBuilder
from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.pact import Broadcast, Exchange, Pact, Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.progress.order import Time
from framework.worker.worker import Worker
from tests.sim.plans import (
    DataflowPlan,
    Enter,
    Item,
    Leave,
    Loop,
    OperatorId,
    OperatorPlan,
    Record,
    ScopePlan,
    SourcePlan,
    StreamId,
    later,
)
from tests.sim.reference import Receipts

PACTS: dict[str, Pact] = {
    "pipeline": Pipeline(),
    "exchange": Exchange(lambda record: record[0]),
    "broadcast": Broadcast(),
}


class Installation:
    """A planned dataflow on one worker."""

    def __init__(self, plan: DataflowPlan, worker: Worker, seed: int) -> None:
        self.worker = worker
        self.received: Receipts = Receipts()
        self.sources: list[DrivenSource] = []
        self.hops = plan.hops
        self._seed = seed
        self._streams: dict[StreamId, Outlet] = {}
        self._builders: dict[OperatorId, tuple[OperatorBuilder, InputHandle, ChaosOperator]] = {}
        with worker.dataflow() as scope:
            self._install(plan.body, scope)

    def dice(self, operator: OperatorId) -> Random:
        """The dice of one operator on this worker."""
        return Random(f"{self._seed}/{operator}/{self.worker.index}")

    def _install(self, body: list[Item], scope: Scope) -> None:
        streams = self._streams
        for item in body:
            match item:
                case OperatorPlan():
                    self._operator(item, scope)
                case SourcePlan():
                    source = DrivenSource(item, scope, self)
                    streams[item.output] = source.outlet
                    self.sources.append(source)
                case Loop(operator, edge):
                    builder, handle, chaos = self._builders[operator]
                    builder.attach(handle, streams[edge.stream], PACTS[edge.pact])
                    chaos.pacts[0] = edge.pact
                case Enter(outer, inner):
                    streams[inner] = scope.enter(streams[outer])
                case Leave(inner, outer):
                    streams[outer] = scope.leave(streams[inner])
                case ScopePlan(iterative, nested):
                    with scope.iterative() if iterative else scope.region() as inside:
                        self._install(nested, inside)

    def _operator(self, plan: OperatorPlan, scope: Scope) -> None:
        builder = scope.operator(f"operator {plan.id}")
        inputs = [
            builder.input(None, Pipeline())
            if edge is None
            else builder.input(self._streams[edge.stream], PACTS[edge.pact])
            for edge in plan.inputs
        ]
        outputs = []
        for stream in plan.outputs:
            output, self._streams[stream] = builder.output()
            outputs.append(output)
        for (port, output_port), summaries in plan.connection.items():
            builder.connect(inputs[port], outputs[output_port], summaries)
        chaos = ChaosOperator(plan, builder, inputs, outputs, self)
        builder.build(chaos.start, capabilities=plan.capabilities, notify=plan.notify)
        builder.operator.on_shut_down.append(chaos.drop_all)
        if plan.inputs == [None]:
            self._builders[plan.id] = builder, inputs[0], chaos


class ChaosOperator:
    """One operator on one worker."""

    def __init__(
        self,
        plan: OperatorPlan,
        builder: OperatorBuilder,
        inputs: list[InputHandle],
        outputs: list[OutputHandle],
        installation: Installation,
    ) -> None:
        self.pacts = ["none" if edge is None else edge.pact for edge in plan.inputs]
        self._plan = plan
        self._inputs = inputs
        self._outputs = outputs
        self._received = installation.received
        self._hops = installation.hops
        self._worker = installation.worker
        self._activator = builder.activator
        self._dice = installation.dice(plan.id)
        self._patience = self._dice.choice((0.2, 0.6, 0.9))
        self._held: list[tuple[int, Capability, list[tuple[Time, tuple[int, int]]]]] = []
        self._serials = [0] * len(outputs)
        self._last_seen: dict[tuple[int, int, int, int], int] = {}
        frontiers = [handle.frontier for handle in inputs]
        waits = plan.may_wait() and self._dice.random() < 0.5
        self._notificators = [Notificator(builder.operator, frontiers) for _ in outputs] if waits else []
        self._promised: list[dict[Time, list[tuple[int, int]]]] = [defaultdict(list) for _ in outputs]
        self._complete: list[Time] = []

    def start(self, capabilities: list[Capability]) -> OperatorLogic:
        """Take the initial capabilities, and hold them for a while."""
        for output, capability in enumerate(capabilities):
            for unasked in self._plan.unasked:
                if (unasked.worker, unasked.output) == (self._worker.index, output):
                    early = capability.clone() if self._dice.random() < 0.5 else capability.delayed(unasked.time)
                    self._held.append((output, early, [(unasked.time, (unasked.value, self._hops))]))
            if self._dice.random() < 0.3:
                capability.drop()
            else:
                self._held.append((output, capability, []))
        return self.run

    def run(self) -> None:
        """Read some, answer, drop some."""
        for port, handle in enumerate(self._inputs):
            for capability, rows in handle:
                self._take(port, handle, capability, rows)
                if self._dice.random() < 0.1:
                    self._activator.activate()
                    break
        for output, notificator in enumerate(self._notificators):
            for notified in notificator:
                assert notificator.complete(notified.time), notified
                self._complete.append(notified.time)
                for content in self._promised[output].pop(notified.time):
                    self._send(output, notified, content)
        self._release()

    def drop_all(self) -> None:
        """The dataflow ends."""
        for _, capability, _ in self._held:
            capability.drop()
        self._held.clear()

    def _take(self, port: int, handle: InputHandle, capability: InputCapability, rows: list[Record]) -> None:
        time, worker = capability.time, self._worker
        assert handle.frontier.less_equal(time), f"a record at {time!r} came after the frontier {handle.frontier!r}"
        for complete in self._complete:
            assert not time <= complete, (  # type: ignore[operator]
                f"a record at {time!r} came after the notification for {complete!r}"
            )
        for value, hops, *origin, serial in rows:
            origin_operator, origin_output, origin_worker = origin
            sender = port, origin_operator, origin_output, origin_worker
            assert self._last_seen.get(sender, -1) < serial, f"{sender} overtook itself: {serial}"
            self._last_seen[sender] = serial
            if self.pacts[port] == "pipeline":
                assert origin_worker == worker.index, (origin_worker, worker.index)
            elif self.pacts[port] == "exchange":
                assert value % worker.peers == worker.index, (value, worker.index)
            self._received[self._plan.id, port, time, value, hops] += 1
            for output, earliest, actual, answer in self._plan.answers(port, time, value, hops):
                self._answer(capability, output, earliest, actual, (answer, hops - 1))

    def _answer(
        self, capability: InputCapability, output: int, earliest: Time, actual: Time, content: tuple[int, int]
    ) -> None:
        dice = self._dice.random()
        if actual == capability.time and capability.valid_at(self._outputs[output]) and dice < 0.4:
            self._send(output, capability, content)
        elif self._notificators and dice < 0.6:
            self._promised[output][actual].append(content)
            self._notificators[output].notify_at(capability.delayed(actual, output))
        elif dice < 0.75:
            with capability.delayed(actual, output) as now:
                self._send(output, now, content)
        else:
            at = self._dice.choice((earliest, actual))
            self._held.append((output, capability.delayed(at, output), [(actual, content)]))

    def _send(self, output: int, capability: Capability | InputCapability, content: tuple[int, int]) -> None:
        serial, self._serials[output] = self._serials[output], self._serials[output] + 1
        record: Record = (*content, self._plan.id, output, self._worker.index, serial)
        session = self._outputs[output].session(capability)
        if self._dice.random() < 0.5:
            session.give(record)
        else:
            session.give_container([record])

    def _release(self) -> None:
        held, self._held = self._held, []
        for output, capability, contents in held:
            dice = self._dice.random()
            if dice < self._patience:
                self._held.append((output, self._fidget(capability, contents), contents))
                continue
            for time, content in contents:
                with capability.delayed(time) as due:
                    self._send(output, due, content)
            if dice > 0.98:
                self._forget(capability)
            capability.drop()
            if dice > 0.95:
                capability.drop()  # which changes nothing
        if self._held:
            self._activator.activate_after(0.02 * self._dice.random())
            if self._dice.random() < 0.3:
                self._activator.activate()
            if self._dice.random() < 0.1:
                self._activator.activate_when_clear()

    def _fidget(self, capability: Capability, contents: list[tuple[Time, tuple[int, int]]]) -> Capability:
        """Do something with a capability that changes nothing of what it must still allow."""
        dice = self._dice.random()
        if dice < 0.3 and contents:
            capability.downgrade(contents[0][0])
        elif dice < 0.5:
            with capability:
                return capability.clone()
        elif dice < 0.6:
            capability.clone().drop()
        return capability

    def _forget(self, capability: Capability) -> None:
        """Leave a capability to the garbage collector, which warns."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            capability.clone()  # and there it goes


class DrivenSource:
    """A source whose capability is outside the dataflow."""

    def __init__(self, plan: SourcePlan, scope: Scope, installation: Installation) -> None:
        self._plan = plan
        self._worker = installation.worker
        self._hops = installation.hops
        self._dice = installation.dice(plan.id)
        self._actions = iter(plan.script[installation.worker.index])
        self._capability: Capability | None = None
        self._serial = 0
        builder = scope.operator(f"source {plan.id}")
        self._output, self.outlet = builder.output()

        def start(capabilities: list[Capability]) -> OperatorLogic:
            [self._capability] = capabilities
            return lambda: None

        builder.build(start, capabilities=True)
        builder.operator.on_shut_down.append(self.close)

    def act(self) -> bool:
        """Do the next thing of the script; tell whether there may be another."""
        action = next(self._actions, None)
        if action is None or self._capability is None:
            self.close()
            return False
        if not isinstance(action, list):
            self._advance(self._capability, action)
            return True
        records: list[Record] = []
        for value in action:
            records.append((value, self._hops, self._plan.id, 0, self._worker.index, self._serial))
            self._serial += 1
        session = self._output.session(self._capability)
        if self._dice.random() < 0.5:
            session.give_container(records)
        else:
            for record in records:
                session.give(record)
            if self._dice.random() < 0.5:
                self._output.flush()
        return True

    def _advance(self, capability: Capability, coordinate: int) -> None:
        time = later(capability.time, coordinate)
        if self._dice.random() < 0.5:
            capability.downgrade(time)
        else:
            with capability:
                self._capability = capability.delayed(time)

    def close(self) -> None:
        """Close."""
        if self._capability is not None:
            self._capability.drop()
            self._capability = None
