"""A worker, as those see it who build dataflows on it: scopes, and the operators in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from framework.dataflow.handle import InputHandle, Pusher
from framework.dataflow.operator import Activator
from framework.dataflow.pact import Pact
from framework.events import Events
from framework.membership.inheritance import Inheritance
from framework.membership.members import Members, WorkerId
from framework.progress.subgraph import ProgressUpdate, Subgraph


class WorkerContext(Protocol):
    """What a dataflow needs of the worker that it is built on."""

    @property
    def id(self) -> WorkerId:
        """This worker."""

    @property
    def index(self) -> int:
        """Its number."""

    @property
    def peers(self) -> int:
        """How many workers there are, this one included."""

    @property
    def members(self) -> Members:
        """The workers that records go to."""

    @property
    def founders(self) -> tuple[WorkerId, ...]:
        """The workers that the job began with."""

    def has_joined(self, worker: WorkerId) -> bool:
        """Whether `worker` has joined since this one is here: for good, and every member's records go to it."""

    @property
    def draining(self) -> bool:
        """Whether somebody who leaves is a member no more, and may still have records: what is broadcast misses it."""

    # What scopes are built with

    @property
    def inheritance(self) -> Inheritance:
        """What this worker begins with."""

    def starters(self, dataflow: int) -> int:
        """How many workers start a dataflow with the capabilities that everybody starts with."""

    def reserve_channel(self) -> int:
        """The number of a new channel."""

    def open_channel(self, handle: InputHandle, sender: str, pact: Pact) -> Pusher:
        """What routes containers along an edge that ends at `handle` and begins at the operator named `sender`."""

    def open_progress(self, channel: int, subgraph: Subgraph) -> None:
        """Hand batches of progress that come in on `channel` to a scope."""

    def broadcaster(self, channel: int) -> Callable[[int, tuple[ProgressUpdate, ...]], None]:
        """What sends a numbered batch of progress to all other workers."""

    def activator(self, activate: Callable[[], None]) -> Activator:
        """The ways to have `activate` called."""

    # What operators ask and say

    @property
    def events(self) -> Events:
        """What happens on this worker, for those who listen."""

    def log(self, text: str) -> None:
        """Tell the user what goes on."""

    def flush(self) -> None:
        """Send the others what is queued for them now, rather than at the end of the next step. Never blocks."""

    def congested(self) -> bool:
        """Whether sources should pause because a peer is behind."""

    def object_to_leaving(self, objection: Callable[[], str | None]) -> Callable[[], None]:
        """Ask `objection` what is in the way, if anything, before this worker leaves; returns what ends that."""

    # What inputs do that are fed from outside: they go no faster than the dataflow

    @property
    def stepping(self) -> bool:
        """Whether a step is under way."""

    @property
    def steps(self) -> int:
        """How many there were."""

    def step(self) -> bool:
        """Do what there is to do now; tell whether any dataflow is left."""

    def step_or_park(self, timeout_s: float | None = None) -> bool:
        """Step; if there is nothing to do, first sleep until there is, or until `timeout_s` have passed."""

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the program has returned and only what is under way remains to be done."""
