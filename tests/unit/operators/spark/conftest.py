"""A broker with an input and an output, and its client, without a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from framework.wire.credentials import Credentials
from operators.broker.broker import Broker
from operators.broker.client import BrokerClient
from operators.broker.intake import Intake
from operators.broker.outbox import Outbox
from operators.broker.server import BrokerServer

OURS = Credentials(b"s" * 32, "5e1f")


@dataclass(frozen=True)
class Served:
    """Both ends."""

    broker: Broker
    client: BrokerClient


@pytest.fixture
def served() -> Iterator[Served]:
    broker = Broker(lambda: None, {"lines": Intake("lines")}, {"counts": Outbox("counts")})
    server = BrokerServer(broker, "127.0.0.1", OURS)
    server.start()
    yield Served(broker, BrokerClient(server.address, OURS))
    server.close()
