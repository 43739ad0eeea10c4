"""What a worker does about joins beside its dataflows: over links and a clock that the test holds."""

from __future__ import annotations

from framework.membership.driver import JOIN_TIMEOUT_S
from framework.membership.members import Members, WorkerId
from framework.membership.messages import Join
from framework.simulation.network import Network, SimulatedTransport
from framework.wire.messages import Lost
from framework.worker.worker import Worker

SERVER, JOINER = WorkerId(0), WorkerId(2)


def test_a_second_attempt_to_join_under_the_same_number_has_all_its_time():
    network = Network()
    transport = SimulatedTransport(SERVER, network)
    worker = Worker(SERVER, Members.dense(2), transport, clock=lambda: network.now_s)

    def serves_after(now_s: float, *messages: Join | Lost) -> bool:
        network.now_s = now_s
        transport.arrived += [(JOINER, message) for message in messages]
        worker.step()
        return worker.membership.serving

    asks = Join(("simulated", 2))
    assert serves_after(0, asks)
    assert not serves_after(1, Lost("reset"))
    assert serves_after(JOIN_TIMEOUT_S - 1, asks)
    assert serves_after(JOIN_TIMEOUT_S + 1)
    assert not serves_after(2 * JOIN_TIMEOUT_S)
