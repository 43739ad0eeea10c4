"""A job's dataflow on one worker: its named inputs and outputs, and the control stream that its operators listen to.

`Job.build` has the user's function build it; the run loop (`operators.job.run_loop`) then feeds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from framework.dataflow.scope import Outlet, Scope
from framework.errors import DuplicateName, GraphError, InputClosed
from framework.wire.container import Container
from framework.worker.worker import Worker
from operators.core.probe import Probe
from operators.core.to_rows import rows_from_columns
from operators.input.control_input import ControlInput
from operators.input.input import Input
from operators.job.cutter import Cutter
from operators.job.part_writer import FileOutput
from operators.job.steward import Steward
from operators.schema import Schema, batch_of
from operators.stream import Stream
from routing.commands import Control, Instruction

if TYPE_CHECKING:
    import pyarrow as pa

    from operators.columns.stream import Columns
    from operators.job.served import ServedJob

OutputReceiver = Callable[[int, Sequence[Any]], None]
"""Takes an output's records, some of an epoch at a time."""


class Flow:
    """A job's dataflow on one worker, under construction and then running."""

    def __init__(
        self,
        worker: Worker,
        scope: Scope,
        receivers: Callable[[str], OutputReceiver | FileOutput],
        serving: ServedJob | None = None,
    ) -> None:
        self.worker = worker
        self.scope = scope
        self.inputs: dict[str, Input[Any]] = {}
        self.column_inputs: dict[str, pa.Schema] = {}
        """The schemas of those inputs that take columns."""
        self.outputs: list[str] = []
        self.probe = Probe()
        self.control: ControlInput | None = None
        """The job's own control input, once an operator listens to it; `command` sends on it."""
        self.cutter: Cutter | None = None
        """Cuts the epochs of outputs that go to files, once one does."""
        self.steward: Steward | None = None
        """Sends what workers that join and leave need, on the worker that sends the job's commands."""
        self.serving = serving
        """The broker's side of inputs and outputs that are open to other processes, if any is."""
        self._receivers = receivers
        self._opened: list[Outlet] = []
        """Where the streams of inputs begin."""
        self._commands: Stream[Control] | None = None
        self._asked: deque[tuple[Instruction, ...]] = deque()
        self._sent_at: int | None = None
        """When commands were last sent."""
        self._lock = Lock()
        self._ended = False

    def input(self, name: str, schema: Schema | None = None) -> Stream[Any]:
        """The stream of records that come in under `name`, spread over all workers, whichever of them is fed.

        `schema` is what it takes from Spark (see `operators.schema`); without one it takes any. A record of one column
        is the column's value, one of several a tuple. Fed with files, a record is a line.
        """
        stream = self._open(name)
        if self.serving is not None:
            self.serving.input(name, schema)
            stream = rows_from_columns(stream)
        self._opened.append(stream.outlet)
        return stream

    def input_columns(self, name: str, schema: Schema) -> Columns:
        """The stream of columns that come in under `name`, spread over all workers, whichever of them is fed.

        Fed with files, it has one column of text, and a row is a line.
        """
        from operators.columns.stream import Columns
        from operators.schema import arrow_schema

        self.column_inputs[name] = arrow_schema(schema)
        stream = self._open(name)
        self._opened.append(stream.outlet)
        if self.serving is not None:
            self.serving.input(name, schema)
        return Columns(stream.outlet, self.column_inputs[name])

    def to_containers(self, name: str, epochs: Iterator[list[Any]]) -> Iterator[Container]:
        """Epochs of records as containers that the input `name` takes: rows, or columns."""
        schema = self.column_inputs.get(name)
        if schema is None:
            return epochs
        return (batch_of(rows, schema, f"input {name!r}") for rows in epochs)

    def _open(self, name: str) -> Stream[Any]:
        if name in self.inputs:
            raise DuplicateName(
                f"this job has an input {name!r} already; call flow.input once and use its stream twice"
            )
        self.inputs[name] = Input(name)
        return self.inputs[name].stream(self.scope).deal()

    def output(self, name: str, stream: Stream[Any] | Columns, schema: Schema | None = None) -> None:
        """Let the records of `stream` go out under `name`; `schema` is what Spark reads them as, if they are rows."""
        if name in self.outputs:
            raise DuplicateName(f"this job has an output {name!r} already; concat the streams, or choose another name")
        if stream.scope.domain != self.scope.domain:
            raise GraphError(
                f"output {name!r} goes out by epoch, and got a stream of scope {stream.scope.name!r}, whose times look "
                f"like {stream.scope.domain.minimum!r}; bring it out of the loop first, with `leave()`"
            )
        self.outputs.append(name)
        if self.serving is not None and self.serving.output(name, stream.probe(self.probe), schema):
            return
        rows = stream if isinstance(stream, Stream) else stream.to_rows()
        receiver = self._receivers(name)
        if isinstance(receiver, FileOutput):
            self.cutter = self.cutter or Cutter(self.worker, self.scope)
            receiver.write(rows, self.cutter.cuts, self.worker)
        else:
            rows = rows.inspect_batch(receiver, name=f"output {name}")
        rows.probe(self.probe)

    def watch_ends(self, job: str) -> None:
        """Let the probe watch sinks and streams that nothing listens to: how far a job without outputs is."""
        loose, sinks = self.scope.loose_ends(), self.scope.sinks()
        if not sinks and loose == self._opened:
            raise GraphError(
                f"job {job!r} does nothing with its inputs; end its dataflow with `flow.output(name, stream)`, or with "
                f"`stream.sink(logic)`"
            )
        unused = self.scope.unused()
        if self.commanding and not sinks and len(unused) == len(loose) > 0:
            self.worker.log(
                f"job {job!r} has no output, and nothing takes what {unused[-1]!r} sends; end its dataflow with "
                f"`flow.output(name, stream)`, or with `stream.sink(logic)`"
            )
        for input in sinks:
            self.probe.watch(input.frontier)
        for outlet in loose if loose or sinks else self._opened:  # the sinks are in nested scopes
            Stream(outlet).probe(self.probe)

    def commands(self) -> Stream[Control]:
        """The job's own control stream, on all workers; stateful operators without another one listen to it."""
        if self._commands is None:
            self.worker.on_finish(self.end_commands)
            self.control = ControlInput()
            self._commands = self.control.stream(self.scope).broadcast()
        return self._commands

    @property
    def fed(self) -> tuple[int, int]:
        """In how many epochs this worker has fed the job, and with how many records."""
        inputs = self.inputs.values()
        return max((input.epochs for input in inputs), default=0), sum(input.records for input in inputs)

    @property
    def commanding(self) -> bool:
        """Whether this worker is the one that sends the job's commands: the first."""
        return self.worker.id == self.worker.members.workers[0]

    def step_while(self, condition: Callable[[], bool]) -> None:
        """Step for as long as `condition` holds; commands for workers that join and leave are sent meanwhile."""
        step_while = self.worker.step_while if self.steward is None else self.steward.step_while
        step_while(condition)

    def advance_control_to(self, epoch: int) -> None:
        """Advance the job's control stream, and the cuts of its files, with its inputs, on the worker that feeds it."""
        if self.cutter is not None:
            self.cutter.advance_to(epoch)
        if self.steward is not None:
            self.steward.advance_to(epoch)

    @property
    def needs_epochs(self) -> bool:
        """Whether commands wait for epochs to pass, even without records."""
        if self.control is None or self.steward is None:
            return False
        return self.steward.needs_epochs or self.control.holds or self._sent_at == self.control.time

    def command(self, *instructions: Instruction) -> None:
        """Send instructions as one set, at the epoch that the job is fed at; may be called from any thread.

        All stateful operators that listen to the job's own control stream receive them. Once the inputs have ended,
        this raises `InputClosed`.
        """
        first = self.worker.members.workers[0]
        if not self.commanding:
            raise GraphError(f"worker {self.worker.id} sends no commands, worker {first} does; ask its flow")
        if self.control is None:
            raise GraphError("no operator of this job listens to commands; a stateful one without `control` would")
        with self._lock:
            if self._ended:
                raise InputClosed("the inputs of this job have ended, and its bins move no more")
            self._asked.append(instructions)
        self.worker.activator(self.send_commands).activate_from_thread()

    def end_commands(self) -> None:
        """Send the last commands, and close the control stream and that of the cuts; in the worker's own thread."""
        if self.cutter is not None:
            self.cutter.close()
        with self._lock:
            self._ended = True
        if self.control is not None:
            self.send_commands()
            self.control.close()

    def send_commands(self) -> None:
        """Send at once what `command` was asked for, rather than at the next step; in the worker's own thread."""
        assert self.control is not None
        while self._asked:
            self.control.send(*self._asked.popleft())
            self._sent_at = self.control.time
        self.control.flush()
