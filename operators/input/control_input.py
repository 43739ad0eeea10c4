"""The control stream's input: sends commands from outside the dataflow."""

from __future__ import annotations

from collections import deque
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

    A worker that leaves hears nothing that is broadcast once it is a member no more, and may still have records, which
    it routes by what it knows. So while one drains, sets that move bins are held back, and those that follow them; each
    is sent at an epoch of its own, afterwards.
    """

    def __init__(self, name: str = "control") -> None:
        self._input = Input[Control](name)
        self._sequence = 0
        self._held: deque[list[Control]] = deque()
        self._worker: WorkerContext | None = None

    def stream(self, scope: Scope) -> Stream[Control]:
        """The stream of the commands, in `scope`."""
        self._worker = scope.worker
        scope.worker.on_finish(self.close)
        return self._input.stream(scope)

    def send(self, *instructions: Instruction) -> int:
        """Send instructions that take effect together, at the current epoch; return the set's number."""
        sequence = self._sequence
        self._sequence += 1
        commands = [Control(sequence, len(instructions), instruction) for instruction in instructions]
        if self._held or (self.holds and _move_bins(commands)):
            self._held.append(commands)
        else:
            self._send(commands)
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
    def holds(self) -> bool:
        """Whether sets that move bins are held back now."""
        assert self._worker is not None, "a control input that feeds no stream"
        return bool(self._held) or self._worker.draining

    @property
    def owes(self) -> bool:
        """Whether a set that was held back is sent when the epoch ends."""
        return bool(self._held) and self._worker is not None and not self._worker.draining

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
        if epoch > self.time and self.owes:
            self._send(self._held.popleft())
        self._input.advance_to(epoch)

    def flush(self) -> None:
        """Hand over what was sent so far; otherwise it goes when the epoch ends."""
        self._input.flush()

    def close(self) -> None:
        """Promise to send nothing more. Of what is held back, no set that moves bins is sent: few epochs are left."""
        for commands in self._held if not self.closed else ():
            if not _move_bins(commands):
                self._input.advance_to(self.time + 1)
                self._send(commands)
        self._held.clear()
        self._input.close()

    def _send(self, commands: Sequence[Control]) -> None:
        for command in commands:
            self._input.send(command)


def _move_bins(commands: Sequence[Control]) -> bool:
    return any(isinstance(command.instruction, Map | Move) for command in commands)
