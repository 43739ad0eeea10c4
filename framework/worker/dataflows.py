"""The dataflows of one worker: which of them run, which channels are theirs, and that all workers built the same."""

from __future__ import annotations

from hashlib import blake2b

from framework.dataflow.handle import InputHandle
from framework.errors import DataflowMismatch, GraphError
from framework.events import DataflowFinished, Events
from framework.membership.members import WorkerId
from framework.progress.explain import scopes_of
from framework.progress.subgraph import ProgressState, Subgraph
from framework.wire.messages import Data, Progress
from framework.worker.switchboard import Switchboard


class Dataflows:
    """What a worker has built, and what of it still runs."""

    def __init__(self, events: Events) -> None:
        self.built = 0
        """How many dataflows were begun here."""
        self.roots: dict[int, Subgraph] = {}
        """The outermost scope of each running dataflow."""
        self.fixed_operators: set[str] = set()
        """Those that keep keys on the workers that the job began with."""
        self.switchboard = Switchboard(events)
        self._events = events
        self._channels_of: dict[int, range] = {}
        self._batches_sent: dict[int, int] = {}
        """By channel, of scopes that have ended."""
        self._fingerprints: dict[int, tuple[WorkerId, bytes]] = {}

    def begin(self) -> int:
        """The number of a new dataflow."""
        self.built += 1
        return self.built - 1

    def add(self, number: int, root: Subgraph, first_channel: int) -> None:
        """A dataflow is built; its channels are all those from `first_channel` on."""
        self.roots[number] = root
        self._channels_of[number] = range(first_channel, self.switchboard.reserved)

    def drop(self, number: int) -> None:
        """End a dataflow at once."""
        root = self.roots.pop(number, None)
        if root is None:
            raise GraphError(f"there is no dataflow {number}; running are {[*self.roots]}")
        root.shut_down()
        channels = self._channels_of.pop(number)
        for channel in channels:
            end = self.switchboard.ends.get(channel)
            if isinstance(end, Subgraph):
                self._batches_sent[channel] = end.batches_sent
        self.switchboard.close(channels)
        if self._events.listening:
            self._events.emit(DataflowFinished(number))

    # Channels

    def open_data(self, handle: InputHandle) -> int:
        """A new channel, whose records go to `handle`."""
        channel = self.switchboard.reserve()
        self.switchboard.open(channel, handle)
        return channel

    def early(self) -> list[tuple[WorkerId, Data | Progress]]:
        """Messages for dataflows that are not built yet."""
        return self.switchboard.early()

    # Scopes

    def scopes(self) -> dict[int, Subgraph]:
        """The running scopes, nested ones included, by the channel that their progress takes."""
        return {channel: end for channel, end in self.switchboard.ends.items() if isinstance(end, Subgraph)}

    def scopes_by_dataflow(self) -> dict[int, list[Subgraph]]:
        """The running scopes, nested ones included, of each dataflow."""
        return {number: [*scopes_of(root).values()] for number, root in self.roots.items()}

    def batches_sent(self) -> dict[int, int]:
        """By channel, how many batches of progress each scope has sent, those that have ended included."""
        return {**self._batches_sent, **{channel: scope.batches_sent for channel, scope in self.scopes().items()}}

    def progress_states(self) -> dict[int, ProgressState]:
        """What each dataflow's outermost scope has heard so far."""
        return {number: root.progress_state() for number, root in self.roots.items()}

    # Agreement on what was built

    def compare(self, number: int, worker: WorkerId, fingerprint: bytes) -> None:
        """Raise if a worker has built something else under a number than another."""
        first, known = self._fingerprints.setdefault(number, (worker, fingerprint))
        if fingerprint != known:
            raise DataflowMismatch(
                f"workers {first} and {worker} built different dataflows (number {number}); build the same operators "
                f"in the same order on every worker, and keep what differs, such as `if worker.index == 0`, out of it"
            )

    def fingerprints(self) -> dict[int, bytes]:
        """Those of the dataflows that were built here."""
        return {number: fingerprint for number, (_, fingerprint) in self._fingerprints.items() if number < self.built}


def fingerprint_of(description: str) -> bytes:
    """Equal for dataflows that were built alike."""
    return blake2b(description.encode(), digest_size=16).digest()
