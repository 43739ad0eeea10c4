"""Writes an output's records to the parts of a directory; drives `Parts` and `Completion`.

On every worker an operator writes the records that come to it, and reports the parts that it has finished. One worker
hears of them all, and says how far the output is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Gather, Pipeline
from framework.progress.antichain import MutableAntichain
from framework.worker.worker import Worker
from operators.job.json_lines import JsonLines
from operators.job.output_directory import OutputDirectory
from operators.job.parts import Completion, OpenPart, PartName, Parts
from operators.stream import Stream

HELD_BYTES_MAX = 32 * 1024 * 1024
"""How much text may wait for cuts; then each epoch that waits has a part of its own."""


@dataclass(slots=True)
class FileOutput:
    """Where the records of one output go on one worker, and in what form."""

    directory: OutputDirectory
    lines: JsonLines
    completion: Completion = field(default_factory=Completion)

    def write(self, rows: Stream[Any], cuts: Stream[int], worker: Worker) -> None:
        """Have the rows of a stream written."""
        name, scope = self.directory.output, rows.scope
        builder = scope.operator(f"output {name}")
        rows_input = builder.input(rows.outlet, Pipeline())
        cuts_input = builder.input(cuts.outlet, Pipeline())
        reports, outlet = builder.output()
        builder.connect(cuts_input, reports, [])
        writer = _Writer(self, worker)
        builder.operator.on_shut_down.append(writer.abandon)
        activate = builder.activator.activate
        worker.membership.on_changed.append(lambda _: activate())
        builder.build(lambda _: partial(writer.run, rows_input, cuts_input, reports))

        first = worker.members.workers[0]
        builder = scope.operator(f"complete {name}")
        reports_input = builder.input(outlet, Gather(first))
        cuts_input = builder.input(cuts.outlet, Pipeline())
        builder.build(lambda _: partial(self._complete, worker.id == first, reports_input, cuts_input))

    def end(self) -> None:
        """Say that all is there, on the worker that has claimed the directory."""
        self.completion.end()
        self.directory.publish(self.completion, ended=True)

    def _complete(self, hears: bool, reports: InputHandle, cuts: InputHandle) -> None:
        for _, epochs in cuts:
            for epoch in epochs if hears else ():
                self.completion.cut(epoch)
        for _, parts in reports:
            for part in parts:
                self.completion.report(PartName(*part))
        if hears and self.completion.advance(_least(reports.frontier)):
            self.directory.publish(self.completion)


class _Writer:
    """The operator that writes, on one worker."""

    def __init__(self, output: FileOutput, worker: Worker) -> None:
        self._directory = output.directory
        self._lines = output.lines
        self._worker = worker.index
        self._membership = worker.membership
        self._parts = Parts(None if worker.membership.joining else 0)
        self._files: dict[OpenPart, BinaryIO] = {}
        self._held: dict[int, list[bytes]] = {}
        """Text that waits for cuts, by epoch."""
        self._held_bytes = 0
        self._capability: Capability | None = None
        """Before each cut that may follow what is not reported."""

    def run(self, rows: InputHandle, cuts: InputHandle, reports: OutputHandle) -> None:
        """Take what has come, write what can be written, report what is finished. Hot path: runs for every epoch."""
        parts = self._parts
        if self._membership.leaving:
            parts.leave()
        for _, epochs in cuts:
            for epoch in epochs:
                parts.cut(epoch)
        heard = _least(cuts.frontier)
        if heard != parts.heard:
            parts.heard = heard
            self._write_held()
            self._hold()
        for capability, records in rows:
            self._take(capability, records)
        if self._held_bytes > HELD_BYTES_MAX:
            self._write_held(at_once=True)
        if finished := parts.take_finished(_least(rows.frontier)):
            self._report(finished, reports)
            self._hold()

    def abandon(self) -> None:
        """Remove what is unfinished."""
        while self._files:
            self._directory.discard(self._files.popitem()[1])

    def _take(self, capability: InputCapability, records: Sequence[Any]) -> None:
        epoch = capability.time
        assert isinstance(epoch, int), epoch
        if self._capability is None or epoch < self._capability.time:  # type: ignore[operator]
            if self._capability is not None:
                self._capability.drop()
            self._capability = capability.retain()
        text = self._lines.lines(records, before=f'{{"epoch": {epoch}, "record": ', after="}")
        part = self._parts.of(epoch)
        if part is not None:
            self._write(part, text)
            return
        self._held.setdefault(epoch, []).append(text)
        self._held_bytes += len(text)

    def _write_held(self, *, at_once: bool = False) -> None:
        for epoch in list(self._held):
            part = self._parts.of(epoch, at_once=at_once)
            if part is not None:
                text = b"".join(self._held.pop(epoch))
                self._held_bytes -= len(text)
                self._write(part, text)

    def _write(self, part: OpenPart, text: bytes) -> None:
        file = self._files.get(part)
        if file is None:
            file = self._files[part] = self._directory.open_unfinished(self._worker)
        with self._directory.writing(file.name):
            file.write(text)

    def _report(self, finished: list[OpenPart], reports: OutputHandle) -> None:
        assert self._capability is not None
        session = reports.session(self._capability)
        for part in finished:
            name = PartName(part.first, part.last, self._worker)
            self._directory.show(self._files[part], name)
            del self._files[part]
            session.give((name.first, name.last, name.worker))

    def _hold(self) -> None:
        """Hold the capability for no longer than it is needed."""
        if self._capability is None:
            return
        if not self._files and not self._held:
            self._capability.drop()
            self._capability = None
            return
        times = [*self._held, self._parts.held_for()]
        least = min((time for time in times if time is not None), default=None)
        if least is not None and least > self._capability.time:  # type: ignore[operator]
            self._capability.downgrade(least)


def _least(frontier: MutableAntichain) -> int | None:
    """The least epoch that may still come; None if nothing can."""
    least = frontier.frontier()
    return least[0] if least else None  # type: ignore[return-value]
