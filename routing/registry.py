"""Which operators of a worker have bins: what a control plane shows and moves.

An operator is listed from when it is built until it ends. Ask in the worker's own thread: routers and stores are its.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from framework.dataflow.operator import BuiltOperator
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from routing.bins import BinId, Bins
from routing.routing_table import RoutingTable


@dataclass(frozen=True, slots=True, eq=False)
class BinnedOperator:
    """An operator on bins, on one worker."""

    name: str
    path: str
    """Where it is in the worker's dataflows; no other operator has the same."""
    bins: Bins
    router: RoutingTable
    """Who owns which bin, and what will change that."""
    keys_per_bin: Callable[[], dict[BinId, int]]
    """The bins that hold anything on this worker, with their numbers of keys."""
    shipped_bytes: Callable[[], int]
    """How much state has left this worker so far."""
    received_bytes: Callable[[], int]
    """How much has come to it."""
    eligible: Callable[[], frozenset[WorkerId]]
    """The workers that may own bins."""
    decided: Callable[[], int]
    """The last epoch with commands that was decided on here."""
    complete: Callable[[], int]
    """The least epoch that results may still come out at, on any worker: before it, all bins have arrived."""
    implied: bool
    """Whether it listens to its job's own control stream because it was given no other."""


_listed: WeakKeyDictionary[Worker, list[BinnedOperator]] = WeakKeyDictionary()


def operators_on(worker: Worker) -> list[BinnedOperator]:
    """The operators with bins that run on a worker, in the order in which they were built."""
    return list(_listed.get(worker, ()))


def commanded_on(worker: Worker) -> list[BinnedOperator]:
    """Those that move by the job's own commands. Where none is known to, those that were given a control stream may."""
    listed = operators_on(worker)
    return [operator for operator in listed if operator.implied] or listed


def enlist(worker: Worker, operator: BuiltOperator, binned: BinnedOperator) -> None:
    """List an operator on bins until `operator`, which holds them, is shut down."""
    listed = _listed.setdefault(worker, [])
    listed.append(binned)
    operator.on_shut_down.append(lambda: listed.remove(binned))
