"""The control stream's input: sends commands from outside the dataflow."""

from __future__ import annotations

from collections.abc import Sequence

from framework.dataflow.scope import Scope
from framework.dataflow.worker_context import WorkerContext
from framework.membership.members import WorkerId
from operators.errors import NotJoined
from operators.input.input import Input
from operators.stream import Stream
from routing.bins import BinId
from routing.commands import Bootstrap, Control, Instruction, Map, Move, Retire


class ControlInput:
    """A handle for the control stream; give its stream, broadcast, to stateful operators.

    One worker sends the commands; the others advance or close theirs. Sets are numbered by themselves.
    """

    def __init__(self, name: str = "control") -> None:
        self._input = Input[Control](name)
        self._sequence = 0
        self._worker: WorkerContext | None = None

    def stream(self, scope: Scope) -> Stream[Control]:
        """The stream of the commands, in `scope`."""
        self._worker = scope.worker
        return self._input.stream(scope)

    def send(self, *instructions: Instruction) -> int:
        """Send instructions that take effect together, at the current epoch; return the set's number."""
        sequence = self._sequence
        self._sequence += 1
        for instruction in instructions:
            self._input.send(Control(sequence, len(instructions), instruction))
        return sequence

    def move(self, bin_id: int, worker: int) -> int:
        """Let `worker` own a bin from the current epoch on."""
        return self.send(Move(BinId(bin_id), WorkerId(worker)))

    def map(self, owners: Sequence[int]) -> int:
        """Say for every bin who owns it from the current epoch on."""
        return self.send(Map(tuple(WorkerId(owner) for owner in owners)))

    def bootstrap(self, joiner: int, *, server: int | None = None) -> int:
        """Let `server`, by default this worker, tell a worker that has joined who owns what; alone at its epoch.

        A joiner takes part from then on, and bins can be moved to it at later epochs.
        """
        assert self._worker is not None, "a control input that feeds no stream"
        if not self._worker.has_joined(WorkerId(joiner)):
            raise NotJoined(
                f"worker {joiner} has not joined, as far as worker {self._worker.id} has heard; wait for it "
                f"(`worker.has_joined`)"
            )
        return self.send(Bootstrap(self._worker.id if server is None else WorkerId(server), WorkerId(joiner)))

    def retire(self, worker: int) -> int:
        """Let a worker that no longer owns a bin never own one again, so that it can leave; alone at its epoch."""
        return self.send(Retire(WorkerId(worker)))

    @property
    def time(self) -> int:
        """The epoch that commands are sent at."""
        return self._input.time

    @property
    def closed(self) -> bool:
        """Whether nothing more can be sent."""
        return self._input.closed

    def advance_to(self, epoch: int) -> None:
        """Promise not to send before `epoch` again."""
        self._input.advance_to(epoch)

    def flush(self) -> None:
        """Hand over what was sent so far; otherwise it goes when the epoch ends."""
        self._input.flush()

    def close(self) -> None:
        """Promise to send nothing more."""
        self._input.close()
