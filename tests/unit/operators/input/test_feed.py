"""`Feed`: what is sent from outside goes no faster than the dataflow."""

from __future__ import annotations

from framework.dataflow.handle import ROWS_PER_CONTAINER
from framework.membership.members import Members, WorkerId
from framework.simulation.network import Network, SimulatedTransport
from framework.worker.worker import Worker
from operators import Input


class SlowPeer(SimulatedTransport):
    """Links that are congested until the worker has parked a few times."""

    parks = 0
    parks_needed = 3

    def congested(self) -> bool:
        return self.parks < self.parks_needed

    def park(self, timeout_s: float | None) -> None:
        self.parks += 1


def build() -> tuple[SlowPeer, Worker, Input[int]]:
    transport = SlowPeer(WorkerId(0), Network())
    worker = Worker(WorkerId(0), Members.dense(1), transport)
    input = Input[int]()
    with worker.dataflow() as scope:
        input.stream(scope).extract()
    return transport, worker, input


def test_sending_waits_until_links_are_clear():
    transport, worker, input = build()
    input.send_batch([0] * ROWS_PER_CONTAINER)
    assert transport.parks == transport.parks_needed
    worker.finish()


def test_a_little_is_sent_at_once():
    transport, worker, input = build()
    input.send_batch([0] * (ROWS_PER_CONTAINER - 1))
    assert (transport.parks, worker.steps) == (0, 0)
    worker.step()
    input.send_batch([0])
    assert (transport.parks, worker.steps) == (0, 1)
    worker.finish()


def test_within_a_step_it_does_not_step():
    transport = SlowPeer(WorkerId(0), Network())
    transport.parks = transport.parks_needed
    worker = Worker(WorkerId(0), Members.dense(1), transport)
    first, second = Input[int](), Input[int]()
    with worker.dataflow() as scope:
        result = second.stream(scope).extract()
        first.stream(scope).inspect(lambda n: second.send_batch([n] * ROWS_PER_CONTAINER)).extract()
    first.send(7)
    first.close()
    worker.step()
    second.close()
    worker.finish()
    assert result.rows() == [7] * ROWS_PER_CONTAINER
