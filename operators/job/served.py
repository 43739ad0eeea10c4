"""A job whose inputs are fed and whose outputs are read by other processes while it runs, as Spark does.

The worker that feeds the job, the first, holds the broker. Batches that were committed are fed as columns, dealt to all
workers, and become rows there; outputs become columns where they are made, and are gathered and kept until read. While
they cannot be kept, or too much is unread, nothing more is fed; epochs without records pass all the same.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from framework.dataflow.handle import InputHandle
from framework.dataflow.pact import Gather
from framework.errors import GraphError
from framework.net.secret import RUN_BYTES, SECRET_BYTES
from framework.progress.order import EPOCH_MAX
from framework.wire.credentials import Credentials, Encryption
from framework.worker.worker import Worker
from operators.broker.address import BrokerAddress
from operators.broker.broker import Broker
from operators.broker.budget import BrokerLimits
from operators.broker.intake import Intake, Release
from operators.broker.outbox import Outbox
from operators.broker.server import BrokerServer
from operators.schema import Schema, arrow_schema
from operators.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

    from operators.columns.stream import Columns
    from operators.input.input import Input
    from operators.job.flow import Flow

LINGER_S = 0.1
"""How often a job that has ended checks whether its outputs have been read."""

RETRY_S = 0.2
"""How often a job that is held looks whether it still is: others may have made room on its disk."""

EXPIRE_S = 30.0
"""How often what is staged is checked for its age."""


class ServedJob:
    """The served inputs and outputs of one job, on one worker: wires them to the broker, and feeds what it releases."""

    def __init__(
        self,
        worker: Worker,
        *,
        but: Collection[str] = (),
        limits: BrokerLimits | None = None,
        encryption: Encryption = Encryption.BETWEEN_MACHINES,
    ) -> None:
        """`but`: the outputs that are not served; `limits`: what may be kept on disk."""
        self._worker = worker
        self._but = but
        self._inputs: dict[str, pa.Schema | None] = {}
        self._outputs: dict[str, pa.Schema] = {}
        self._credentials = Credentials(
            secrets.token_bytes(SECRET_BYTES), secrets.token_hex(RUN_BYTES), encryption=encryption
        )
        self._server: BrokerServer | None = None
        self._intakes: dict[str, Intake] = {}
        self._outboxes: dict[str, Outbox] = {}
        self._held: str | None = None
        """Why the job was held when that was last looked at."""
        self._looking = False
        wake = worker.activator(lambda: None).activate_from_thread
        own = limits if worker.id == worker.members.workers[0] else None
        self.broker = Broker(wake, self._intakes, self._outboxes, self._inputs, own)

    # While the dataflow is built

    def input(self, name: str, schema: Schema | None) -> None:
        """Serve an input, which is fed with columns."""
        self._inputs[name] = None if schema is None else arrow_schema(schema)
        self._intakes[name] = Intake(name)

    def output(self, name: str, stream: Stream[Any] | Columns, schema: Schema | None) -> bool:
        """Keep what comes out for its readers; whether this output is served."""
        from operators.columns.stream import Columns

        if name in self._but:
            return False
        if isinstance(stream, Columns):
            schema = stream.schema
        if schema is None:
            raise GraphError(
                f"output {name!r} has no schema, and others cannot read it; "
                f"declare one, as in flow.output({name!r}, stream, {{'word': str, 'count': int}}), or send it to files"
            )
        columns = arrow_schema(schema)
        self._outputs[name] = columns
        self._outboxes[name] = Outbox(name)
        gathered = stream if isinstance(stream, Columns) else stream.to_columns(columns, name=f"output {name}")
        first = self._worker.members.workers[0]
        Stream[Any](gathered.outlet).sink(partial(self._keep, name), pact=Gather(first), name=f"keep {name}")
        return True

    def _keep(self, name: str, input: InputHandle) -> None:
        from framework.wire.columns import encode_batch

        for capability, batch in input:
            assert isinstance(capability.time, int), capability
            self.broker.deliver(name, capability.time, encode_batch(batch), len(batch))
        least = input.frontier.frontier()
        self.broker.close_before(name, min(least) if least else None)  # type: ignore[arg-type]
        self._look()

    # While it runs

    def address(self) -> BrokerAddress | None:
        """Where the broker is, and what goes in and out there; None if it does not answer yet."""
        if self._server is None:
            return None
        host, port = self._server.address
        return BrokerAddress(
            run=self._credentials.run,
            host=host,
            port=port,
            secret=self._credentials.secret.hex(),
            encryption=self._credentials.encryption.value,
            inputs={name: None if schema is None else _text(schema) for name, schema in self._inputs.items()},
            outputs={name: _text(schema) for name, schema in self._outputs.items()},
        )

    @property
    def held(self) -> str | None:
        """Why nothing would be taken in now, on the worker that holds the broker, if nothing would."""
        return self.broker.held if self._server is not None else None

    def finish(self) -> None:
        """End all inputs: the job ends once it has processed what has come, and that has been read."""
        self.broker.finish(())

    def serve(self, flow: Flow) -> None:
        """Feed what is committed until all inputs have ended, on the worker that holds the broker."""
        if not flow.commanding:
            return
        host, _ = self._worker.membership.addresses[self._worker.id]
        self._server = BrokerServer(self.broker, host or "127.0.0.1", self._credentials)
        self._server.start()
        self._expire()
        open_inputs = dict(flow.inputs)

        def idle() -> bool:
            self.broker.complete_before(min(flow.probe.frontier(), default=EPOCH_MAX))  # type: ignore[arg-type]
            ready = self._look()
            if not ready and flow.needs_epochs:
                self._pass_epoch(flow, open_inputs)
            return not ready

        while open_inputs:
            release = self.broker.take()
            if release is None:
                flow.step_while(idle)
                continue
            self._feed(flow, release)
            if release.last:
                open_inputs.pop(release.input).close()

    def _feed(self, flow: Flow, release: Release) -> None:
        from framework.wire.columns import decode_batch

        input = flow.inputs[release.input]
        input.advance_to(release.epoch)
        for extent in release.extents:
            input.send_container(decode_batch(self.broker.staged.read(extent)))
            self.broker.drop_fed(extent)
        input.advance_to(release.epoch + 1)
        flow.advance_control_to(release.epoch + 1)

    def _pass_epoch(self, flow: Flow, inputs: Mapping[str, Input[Any]]) -> None:
        """Let an epoch pass without records: migrations, joins and leaves need one, and no input brings it."""
        epoch = 1 + max(input.time for input in inputs.values())
        self.broker.pass_to(epoch)
        for input in inputs.values():
            input.advance_to(epoch)
        flow.advance_control_to(epoch)

    def _look(self) -> bool:
        """Whether there is something to feed; if the job is held back, say so, and look again until it is not."""
        self.broker.retry()
        ready, held = self.broker.ready()
        if (held is None) != (self._held is None):
            self._worker.log(f"nothing is taken in: {held}" if held is not None else "the job takes in again")
        self._held = held
        if held is not None and not self._looking:
            self._looking = True
            self._worker.after(RETRY_S, self._look_again)
        return ready

    def _look_again(self) -> None:
        self._looking = False
        self._look()

    def _expire(self) -> None:
        """Drop what is staged and too old, now and every now and then."""
        self.broker.expire()
        self._worker.after(EXPIRE_S, self._expire)

    def drain(self) -> None:
        """Step until what has come out has been read; the dataflow is complete."""
        told: list[str] = []
        while (unread := self.broker.unread) and self._server is not None:
            if unread != told:
                self._worker.log(f"the job waits until its outputs are read: {', '.join(unread)}")
                told = unread
            self.broker.wait(LINGER_S)
            self._worker.step()
            self._look()

    def close(self) -> None:
        """Stop serving; requests that wait are refused."""
        self.broker.fail("the job has ended")
        if self._server is not None:
            self._server.close()


def _text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode("ascii")
