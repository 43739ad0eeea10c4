"""What the inputs of a planned dataflow must receive, computed by one thread without any notion of progress."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from framework.progress.order import Product, Time
from tests.sim.plans import (
    DataflowPlan,
    Edge,
    Enter,
    Item,
    Leave,
    Loop,
    OperatorId,
    OperatorPlan,
    ScopePlan,
    SourcePlan,
    StreamId,
)

Receipts = Counter[tuple[OperatorId, int, Time, int, int]]
"""How often each operator, at each port, received a value with so many hops left at a time, on all workers together."""


class TooMuch(Exception):
    """The dataflow would receive more records than a simulation should have."""


@dataclass(slots=True)
class _Wiring:
    operators: dict[OperatorId, OperatorPlan] = field(default_factory=dict)
    sources: list[SourcePlan] = field(default_factory=list)
    inputs: dict[StreamId, list[tuple[OperatorId, int, Edge]]] = field(default_factory=lambda: defaultdict(list))
    passages: dict[StreamId, list[tuple[StreamId, str]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, body: list[Item], *, iterative: bool) -> None:
        for item in body:
            match item:
                case OperatorPlan():
                    self.operators[item.id] = item
                    for port, edge in enumerate(item.inputs):
                        if edge is not None:
                            self.inputs[edge.stream].append((item.id, port, edge))
                case SourcePlan():
                    self.sources.append(item)
                case Loop(operator, edge):
                    self.inputs[edge.stream].append((operator, 0, edge))
                case Enter(outer, inner):
                    self.passages[outer].append((inner, "enter" if iterative else "pass"))
                case Leave(inner, outer):
                    self.passages[inner].append((outer, "leave" if iterative else "pass"))
                case ScopePlan(nested_iterative, nested):
                    self.take(nested, iterative=nested_iterative)


def reference(plan: DataflowPlan, workers: int, receipts_max: int | None) -> Receipts:
    """Follow every record to its end, or until there are too many of them."""
    wiring = _Wiring()
    wiring.take(plan.body, iterative=False)
    received: Receipts = Counter()
    total = 0
    waiting = deque((stream, time, value, plan.hops, 1) for stream, time, value in _origins(wiring, workers))
    while waiting:
        stream, time, value, hops, count = waiting.popleft()
        for passage, how in wiring.passages[stream]:
            waiting.append((passage, _PASSAGES[how](time), value, hops, count))
        for operator, port, edge in wiring.inputs[stream]:
            copies = count * workers if edge.pact == "broadcast" else count
            received[operator, port, time, value, hops] += copies
            total += copies
            if receipts_max is not None and total > receipts_max:
                raise TooMuch
            plan_of_operator = wiring.operators[operator]
            for output, _, actual, answer in plan_of_operator.answers(port, time, value, hops):
                waiting.append((plan_of_operator.outputs[output], actual, answer, hops - 1, copies))
    return received


def _origins(wiring: _Wiring, workers: int) -> Iterator[tuple[StreamId, Time, int]]:
    for source in wiring.sources:
        for worker in range(workers):
            for time, value in source.sends(worker):
                yield source.output, time, value
    for operator in wiring.operators.values():
        for unasked in operator.unasked:
            yield operator.outputs[unasked.output], unasked.time, unasked.value


def _leave(time: Time) -> Time:
    assert isinstance(time, Product)
    return time.outer


_PASSAGES = {"enter": lambda time: Product(time, 0), "leave": _leave, "pass": lambda time: time}
