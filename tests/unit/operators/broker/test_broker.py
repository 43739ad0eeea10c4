"""What clients of a broker wait for."""

from __future__ import annotations

import pytest

from operators.broker import broker as module
from operators.broker.broker import Broker
from operators.broker.intake import Intake
from operators.broker.outbox import Outbox


def test_what_was_committed_has_come_out_once_that_of_the_faster_input_has(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.01)
    counts = Outbox("counts")
    broker = Broker(lambda: None, {"lines": Intake("lines"), "table": Intake("table")}, {"counts": counts})

    def take() -> None:
        broker.take()

    for input, batches in (("lines", 3), ("table", 1)):
        for batch in range(batches):
            broker.commit(input, "q", batch, [], heartbeat=take)
    while broker.take() is not None:
        pass
    waited: list[int] = []

    def heartbeat() -> None:
        waited.append(counts.closed)
        broker.close_before("counts", counts.closed + 1)

    broker.settle("counts", heartbeat)
    assert waited == [0, 1, 2]
