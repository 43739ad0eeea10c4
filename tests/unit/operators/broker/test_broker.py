"""What clients of a broker wait for."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from operators.broker import broker as module
from operators.broker.broker import Broker
from operators.broker.intake import AHEAD_MAX, Intake
from operators.broker.outbox import Outbox

WAIT_S = 10.0


@dataclass(slots=True)
class Clock:
    """The time as a test has it."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


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


class Noted(threading.Condition):
    """A condition that tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


def test_a_commit_is_answered_as_soon_as_the_job_keeps_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 10 * WAIT_S)
    broker = Broker(lambda: None, {"lines": Intake("lines")}, {})
    broker._changed = changed = Noted()
    for batch in range(AHEAD_MAX):
        broker.commit("lines", "q", batch, [], heartbeat=lambda: None)
        broker.take()

    def commit() -> None:
        broker.commit("lines", "q", AHEAD_MAX, [], heartbeat=lambda: None)

    committing = threading.Thread(target=commit, daemon=True)
    committing.start()
    assert changed.waited.wait(WAIT_S)
    broker.complete_before(1)
    committing.join(WAIT_S)
    assert not committing.is_alive()


def test_an_output_that_moves_on_slowly_is_waited_for_however_long_it_takes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.0)
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    counts = Outbox("counts")
    broker = Broker(lambda: None, {"lines": Intake("lines")}, {"counts": counts})
    broker.pass_to(3)
    broker.commit("lines", "q", 0, [], heartbeat=lambda: None)
    broker.take()

    def heartbeat() -> None:
        clock.now_s += 0.9 * module.SETTLE_S
        broker.close_before("counts", counts.closed + 1)

    broker.settle("counts", heartbeat)
    assert counts.closed == 4
