"""A worker alone, a source that a test drives by hand, and a sink that remembers: the smallest dataflows there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.operator import OperatorLogic
from framework.dataflow.pact import Pact, Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.membership.members import Members
from framework.progress.order import Time
from framework.simulation.network import Network, SimulatedTransport
from framework.worker.worker import Worker


def worker_alone(network: Network | None = None) -> Worker:
    """A worker without peers."""
    return workers(1, network)[0]


def workers(count: int, network: Network | None = None) -> list[Worker]:
    """Workers that are peers of each other; the test moves the frames between them."""
    links = network or Network()
    members = Members.dense(count)
    peers = [Worker(id_, members, SimulatedTransport(id_, links), clock=lambda: links.now_s) for id_ in members.workers]
    _started.extend(peers)
    return peers


_started: list[Worker] = []


@pytest.fixture(autouse=True)
def no_dataflow_outlives_its_test() -> Iterator[None]:
    """End what a test left running, so that no capability is left to the garbage collector."""
    yield
    for worker in _started:
        worker.shut_down()
    _started.clear()


def deliver_all(network: Network) -> int:
    """Let everything arrive that is under way; tell how many frames that were."""
    frames = 0
    while network.busy():
        for link in network.busy():
            network.deliver(link)
            frames += 1
    return frames


def settle(peers: list[Worker], network: Network | None = None, *, rounds: int = 30) -> None:
    """Step every worker, and deliver what they send, often enough for everything to come to rest."""
    for _ in range(rounds):
        for worker in peers:
            worker.step()
        if network is not None:
            deliver_all(network)


class Tap:
    """A source driven by hand."""

    def __init__(self, scope: Scope, name: str = "tap") -> None:
        builder = scope.operator(name)
        self.output, self.outlet = builder.output()
        self.capability: Capability

        def start(capabilities: list[Capability]) -> OperatorLogic:
            [self.capability] = capabilities
            return lambda: None

        builder.build(start, capabilities=True)
        builder.operator.on_shut_down.append(lambda: self.capability.drop())

    def send(self, *rows: Any) -> None:
        """Send rows at the current time."""
        self.output.session(self.capability).give_container(list(rows))

    def advance(self, time: Time) -> None:
        """Go on to a later time."""
        self.capability.downgrade(time)

    def close(self) -> None:
        """Close."""
        self.capability.drop()


class Catch:
    """A sink that remembers what came, and what it was told."""

    def __init__(self, scope: Scope, outlet: Outlet, pact: Pact | None = None, *, notify: bool = True) -> None:
        builder = scope.operator("catch")
        self._input = builder.input(outlet, pact or Pipeline())
        self.rows: list[tuple[Time, Any]] = []
        self.told: list[tuple[Time, ...]] = []
        builder.build(lambda _: self._run, notify=notify)

    def _run(self) -> None:
        for capability, rows in self._input:
            self.rows += [(capability.time, row) for row in rows]
        self.told.append(self._input.frontier.frontier())

    def queued(self) -> Iterable[tuple[Time, Any]]:
        """What has come and was not taken."""
        return self._input.queued()

    @property
    def frontier(self) -> tuple[Time, ...]:
        """What may still come."""
        return self._input.frontier.frontier()
