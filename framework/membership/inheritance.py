"""What a worker begins with: nothing, if it was there when the job began; what its server told it, if it joined."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from framework.errors import DataflowMismatch, GraphError
from framework.membership.bootstrap_server import Participation
from framework.membership.members import WorkerId
from framework.membership.messages import JoinState, ScopeState
from framework.progress.order import Time
from framework.progress.subgraph import ProgressState, ProgressUpdate
from framework.wire.messages import Progress

InheritedProgress: TypeAlias = tuple[ProgressState | None, list[tuple[WorkerId, int, tuple[ProgressUpdate, ...]]]]
"""The server's state of a scope, if that has begun there, and batches that the server passed on."""


class Inheritance:
    """What was built before a worker came, and what of it is still under way."""

    def __init__(self, worker: WorkerId) -> None:
        self.built = 0
        """How many dataflows the server has built."""
        self.channels = 0
        self.fingerprints: dict[int, bytes] = {}
        self.lent: dict[tuple[str, int], Time] = {}
        self.participation: Participation = ()
        self.scopes: dict[int, ScopeState] = {}
        self.batches: dict[int, list[tuple[WorkerId, Progress]]] = defaultdict(list)
        """By channel, those that the server passed on."""
        self._worker = worker

    def take(self, state: JoinState) -> None:
        """Take over what the server has told."""
        self.built, self.channels = state.built, state.channels
        self.fingerprints = dict(state.fingerprints)
        self.lent = {(path, port): time for path, port, time in state.lent}
        self.participation = state.participation

    def initial_time(self, path: str, port: int, minimum: Time) -> Time | None:
        """At which time an output's first capability is; None if it begins without one."""
        if int(path.split(".")[0]) >= self.built:
            return minimum
        return self.lent.pop((path, port), None)

    def progress(self, channel: int) -> InheritedProgress:
        """What a scope begins with."""
        passed_on = [(sender, batch.sequence, batch.changes) for sender, batch in self.batches.pop(channel, [])]
        if channel >= self.channels:
            return None, passed_on
        scope = self.scopes.pop(channel, ScopeState(channel, (), (), ()))
        state = ProgressState(
            {(location, time): count for location, time, count in scope.pointstamps},
            {(location, time): count for location, time, count in scope.exits},
            {WorkerId(worker): sequence for worker, sequence in scope.next_in},
            0,
        )
        return state, passed_on

    def starters(self, dataflow: int) -> int:
        """How many workers start a dataflow with the capabilities that everybody starts with."""
        return sum(first <= dataflow < end for _, first, end in self.participation)

    def check_fingerprint(self, number: int, fingerprint: bytes) -> None:
        """Raise if the joiner has built something else than the job runs."""
        known = self.fingerprints.get(number)
        if known is not None and known != fingerprint:
            raise DataflowMismatch(
                f"this program does not fit the job that worker {self._worker} was to join: they built different "
                f"dataflows (number {number}); join with the same program, of the same version, as the job was started"
            )

    def check_built(self, built: int) -> None:
        """Raise if a joiner's program has come to its end without having built what the job runs."""
        if built < self.built:
            raise GraphError(
                f"worker {self._worker} joined a job of {self.built} dataflows and built {built}; build them all "
                f"before worker.bootstrap()"
            )
