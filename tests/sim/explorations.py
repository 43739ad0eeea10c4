"""Small clusters whose every order of events is explored; and rules that are weaker than ours, which must be found out.

python -m tests.sim.explorations                    what the test suite explores
python -m tests.sim.explorations join --full        one of them, step by step instead of sleep by sleep
python -m tests.sim.explorations join --rule hasty  one of them under a weaker rule, with the trace of what breaks
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from framework.dataflow.operator import BuiltOperator
from framework.membership import driver, protocol
from framework.membership.bootstrap_server import BootstrapServer, JoinStage
from framework.membership.dataflow_state import LentCapability
from framework.membership.effects import Effect, Phase, Send
from framework.membership.joiner import Joiner
from framework.membership.members import WorkerId
from framework.membership.messages import Enlist, Linked, Ready, Want
from framework.progress.order import Time, linear_key
from framework.simulation.actor import ActorStatus, Role, Script
from framework.simulation.explore import Ends, Found, Scenario, explore
from framework.simulation.views import Broken, ScriptLog
from framework.worker.dataflow_state import WorkerDataflowState
from framework.worker.worker import Worker
from operators import Input


def feeds(epochs: int, *, records: int = 0, leaves: bool = False, to_all: bool = False) -> Script:
    """A program that feeds `epochs`, with one record in each of the first `records` of them, and leaves or ends.

    Records are exchanged, or all workers get them.
    """

    def part(worker: Worker, log: ScriptLog) -> Iterator[None]:
        numbers = Input[int]("numbers")

        def keep(time: Time, number: int) -> None:
            log["received", time, number, worker.id if to_all else None] += 1

        with worker.dataflow() as scope:
            stream = numbers.stream(scope)
            # The first record is for worker 2 of three.
            stream = stream.broadcast() if to_all else stream.exchange(lambda number: number + 2)
            stream.inspect_time(keep)
        yield
        while worker.membership.joining:
            yield
        sent = 0
        while not numbers.closed and numbers.time + 1 < epochs:
            if sent < records:
                for receiver in worker.members.workers if to_all else (None,):
                    log["sent", numbers.time, sent, receiver] += 1
                numbers.send(sent)
                numbers.flush()
                sent += 1
            numbers.advance_to(numbers.time + 1)
            yield
        numbers.close()
        if leaves:
            worker.membership.begin_leave()
            while not worker.membership.gone:
                if not worker.installed_dataflows() and not worker.membership.leaving:  # as in `Worker.leave`
                    worker.membership.withdraw()
                    return
                yield

    return part


def judge(ends: Ends) -> str | None:
    """Each record was received once, at its time, by whom it was for; and everybody came to where it wanted to."""
    sent, received = Counter[object](), Counter[object]()
    for worker, (status, view) in ends.items():
        for entry, count in view.log:
            assert isinstance(entry, tuple), entry
            if ends.get(entry[-1], (None,))[0] is not ActorStatus.DEAD:
                (sent if entry[0] == "sent" else received)[entry[1:]] += count
        if status is ActorStatus.HERE and view.joining:
            return f"worker {worker} still waits to join"
    if sent != received:
        return f"of {dict(sent)} sent, {dict(received)} was received"
    return None


def _cluster(*roles: Role, **options: Any) -> Scenario:
    return Scenario(roles, judge, restless=True, arrivals_max=1, **options)


def _role(worker: int, part: Script, **options: Any) -> Role:
    return Role(WorkerId(worker), part, **options)


_SERVER, _OTHER = WorkerId(0), WorkerId(1)

CONFIGURATIONS = {
    "join": _cluster(_role(0, feeds(2)), _role(1, feeds(2)), _role(2, feeds(1), server=_SERVER)),
    "join-with-a-record": _cluster(
        _role(0, feeds(1)), _role(1, feeds(2, records=1)), _role(2, feeds(1), server=_SERVER)
    ),
    "join-through-the-other": _cluster(_role(0, feeds(2)), _role(1, feeds(2)), _role(2, feeds(2), server=_OTHER)),
    "join-and-die": _cluster(_role(0, feeds(2)), _role(1, feeds(1)), _role(2, feeds(2), server=_SERVER, mortal=True)),
    "die-with-a-record": _cluster(
        _role(0, feeds(1)), _role(1, feeds(2, records=1)), _role(2, feeds(1), server=_SERVER, mortal=True)
    ),
    "die-with-a-record-for-all": _cluster(
        _role(0, feeds(1, to_all=True)),
        _role(1, feeds(2, records=1, to_all=True)),
        _role(2, feeds(1, to_all=True), server=_SERVER, mortal=True),
    ),
    "join-at-the-end": _cluster(
        _role(0, feeds(1)), _role(1, feeds(1)), _role(2, feeds(1), server=_SERVER), goodbyes=True
    ),
    "die-at-the-end": _cluster(
        _role(0, feeds(1)), _role(1, feeds(1)), _role(2, feeds(1), server=_OTHER, mortal=True), goodbyes=True
    ),
    "leave": _cluster(_role(0, feeds(2, records=1)), _role(1, feeds(2, records=1, leaves=True)), goodbyes=True),
    "coordinator-leaves": _cluster(
        _role(0, feeds(2, leaves=True)), _role(1, feeds(1)), _role(2, feeds(2)), goodbyes=True
    ),
    "two-of-three-leave": _cluster(
        _role(0, feeds(1, leaves=True)), _role(1, feeds(1)), _role(2, feeds(1, leaves=True)), goodbyes=True
    ),
    "join-and-leave": _cluster(_role(0, feeds(2)), _role(1, feeds(1, leaves=True)), _role(2, feeds(1), server=_SERVER)),
    "join-through-a-leaver": _cluster(
        _role(0, feeds(1)), _role(1, feeds(1, leaves=True)), _role(2, feeds(1), server=_OTHER), goodbyes=True
    ),
    "join-as-the-coordinator-leaves": _cluster(
        _role(0, feeds(1, leaves=True)), _role(1, feeds(1)), _role(2, feeds(1), server=_OTHER), goodbyes=True
    ),
}
"""By name. A worker steps on until it sleeps, and takes one frame at a time; `--full` lifts both bounds."""


# Rules that are weaker than ours


def lend_at_the_frontier(self: WorkerDataflowState) -> tuple[LentCapability, ...]:
    """The rule of Selvatici (2019), 6.2: a capability at the server's view of an operator's frontier."""
    lent: list[LentCapability] = []
    for scope in self._dataflows.scopes().values():
        for child in scope.children():
            if isinstance(child.operator, BuiltOperator) and child.operator.lends:
                for port, source in enumerate(child.sources):
                    frontier = scope.ledger().tracker.frontier(source).frontier()
                    if frontier:
                        time = min(frontier, key=linear_key)
                        scope.lend(source, time, 1)
                        lent.append((child.path, port, time))
    return tuple(lent)


class HastyJoiner(Joiner):
    """Does not wait until every member has admitted it."""

    def _advance(self) -> list[Effect]:
        if self.phase is Phase.LEARNING and self._state is not None:
            return [*self._compare(self._state), *super()._advance()]
        return super()._advance()


class EagerServer(BootstrapServer):
    """Asks the joiner whether it is still there when it asks the members to enlist it, instead of after that."""

    def receive(self, message: Linked | Want | Ready) -> list[Send]:
        sends = super().receive(message)
        return [*sends, Send(self.joiner, Enlist(self.joiner))] if self.stage is JoinStage.ENLISTING else sends

    def enlisted(self, worker: WorkerId) -> list[Send]:
        super().enlisted(worker)
        return []


RULES: dict[str, tuple[object, str, object] | None] = {
    "ours": None,
    "frontier": (WorkerDataflowState, "lend", lend_at_the_frontier),
    "hasty": (driver, "Joiner", HastyJoiner),
    "eager": (protocol, "BootstrapServer", EagerServer),
}
"""By name, what takes the place of what."""


@contextmanager
def following(rule: str) -> Iterator[None]:
    """Let workers follow another rule."""
    with pytest.MonkeyPatch.context() as patch:
        weaker = RULES[rule]
        if weaker is not None:
            patch.setattr(*weaker)
        yield


def run(name: str, *, under: str = "ours", seeking: type[Broken] = Broken, full: bool = False) -> Found:
    """Explore a configuration."""
    configuration = CONFIGURATIONS[name]
    if full:
        configuration = replace(configuration, restless=False, arrivals_max=99)
    with following(under):
        return explore(configuration, seeking=seeking)


def main() -> None:
    """Explore, and tell what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.explorations")
    parser.add_argument(
        "names", nargs="*", default=list(CONFIGURATIONS), metavar="name", help=", ".join(CONFIGURATIONS)
    )
    parser.add_argument("--rule", default="ours", choices=list(RULES))
    parser.add_argument("--full", action="store_true", help="every step a move of its own, any number of frames a step")
    options = parser.parse_args()
    for name in options.names:
        found = run(name, under=options.rule, full=options.full)
        print(f"{name}: {found}", *found.trace, sep="\n", flush=True)


if __name__ == "__main__":
    main()
