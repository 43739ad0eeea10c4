"""Finds a running job that serves its inputs and outputs, and tells their names and schemas."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from framework.errors import ConfigError
from framework.suggest import hint
from framework.wire.credentials import Credentials, Encryption
from operators.admin.client import JobClient
from operators.admin.errors import JobUnreachable
from operators.admin.json_codec import from_json
from operators.broker.address import BrokerAddress
from operators.broker.client import BrokerClient

OPEN_S = 120.0
"""How long a job that runs may take until it serves: a job of columns compiles its folds at first."""

POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class JobEndpoint:
    """Where one served job is reached, and the schemas of its inputs and outputs."""

    name: str
    run: str
    """Tells one run of a job from the next."""
    client: BrokerClient
    inputs: Mapping[str, pa.Schema | None]
    outputs: Mapping[str, pa.Schema]

    def choose_input(self, name: str | None) -> str:
        """The input of this name, or the only one."""
        return _choose("input", name, self.inputs, self.name)

    def choose_output(self, name: str | None) -> str:
        """The output of this name, or the only one."""
        return _choose("output", name, self.outputs, self.name)


def find_endpoint(directory: Path, job: str | None = None) -> JobEndpoint:
    """The job that was started in a directory with `--serve`, the one called `job` if there are several."""
    deadline_s = time.monotonic() + OPEN_S
    while True:
        admin = JobClient.of(directory, job)  # again each time: it may have ended meanwhile
        try:
            address = from_json(BrokerAddress, admin.get("broker"))
            break
        except JobUnreachable:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(POLL_S)
    encryption = Encryption(address.encryption)
    credentials = Credentials(bytes.fromhex(address.secret), address.run, encryption=encryption)
    client = BrokerClient((address.host, address.port), credentials)
    inputs = {name: None if text is None else _schema(text) for name, text in address.inputs.items()}
    outputs = {name: _schema(text) for name, text in address.outputs.items()}
    return JobEndpoint(admin.name, address.run, client, inputs, outputs)


def _choose(kind: str, name: str | None, known: Mapping[str, object], job: str) -> str:
    if name is None and len(known) == 1:
        return next(iter(known))
    if name in known:
        assert name is not None
        return name
    listed = ", ".join(map(repr, known)) or "none"
    if name is None:
        raise ConfigError(f"job {job!r} has the {kind}s {listed}; say which one: .option({kind!r}, ...)")
    raise ConfigError(f"job {job!r} has no {kind} {name!r}; it has {listed}{hint(name, known)}")


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
