"""A job's dataflow under construction: where its named ends are tied to inputs and receivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from framework.dataflow.scope import Scope
from framework.errors import DuplicateName
from framework.progress.order import Time
from framework.worker.worker import Worker
from operators.input import Input
from operators.probe import Probe
from operators.stream import Stream

Receiver = Callable[[int, Sequence[Any]], None]
"""Takes an output's records, some of an epoch at a time."""


class Flow:
    """A job's dataflow under construction on one worker."""

    def __init__(self, worker: Worker, scope: Scope, receivers: Callable[[str], Receiver]) -> None:
        self.worker = worker
        self.scope = scope
        self.inputs: dict[str, Input[Any]] = {}
        self.outputs: list[str] = []
        self.probe = Probe()
        self._receivers = receivers

    def input(self, name: str) -> Stream[Any]:
        """The stream of records that come in under `name`."""
        if name in self.inputs:
            raise DuplicateName(
                f"this job has an input {name!r} already; call flow.input once and use its stream twice"
            )
        self.inputs[name] = Input(name)
        return self.inputs[name].stream(self.scope)

    def output(self, name: str, stream: Stream[Any]) -> None:
        """Let the records of `stream` go out under `name`."""
        if name in self.outputs:
            raise DuplicateName(f"this job has an output {name!r} already; concat the streams, or choose another name")
        self.outputs.append(name)
        receive = self._receivers(name)

        def pass_on(time: Time, rows: Any) -> None:
            assert isinstance(time, int), time
            receive(time, rows)

        stream.inspect_batch(pass_on).probe(self.probe)
