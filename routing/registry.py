"""The operators of a worker that have bins: what a control plane shows and moves.

An operator is listed from when it is built until it ends. Ask in the worker's own thread: tables and states are not
synchronized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from framework.dataflow.operator import BuiltOperator
from framework.dataflow.worker_context import WorkerContext
from framework.errors import GraphError
from framework.membership.members import WorkerId
from routing.bins import BinId, Bins
from routing.load import BinWeight, WeighedBins
from routing.router_operator import RouterCores, RouterOperator
from routing.routing_table import RoutingTable
from routing.state_operator import StateOperator


@dataclass(frozen=True, slots=True, eq=False)
class BinnedOperator:
    """An operator on bins, on one worker: its F and S, and what is asked of them."""

    name: str
    group: str
    """Those with which it shares its owners of bins."""
    bins: Bins
    implied: bool
    """Whether it listens to its job's own control stream because it was given no other."""
    _cores: RouterCores
    _router_operator: RouterOperator
    _state_operator: StateOperator

    @property
    def path(self) -> str:
        """Where it is in the worker's dataflows; no other operator has the same."""
        return self._state_operator.path

    @property
    def table(self) -> RoutingTable:
        """Who owns which bin, and what will change that."""
        return self._cores.table

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that hold anything on this worker, with their numbers of keys."""
        return self._state_operator.keys_per_bin()

    def weighed(self) -> WeighedBins | None:
        """What all workers last told this one of the bins."""
        return self._router_operator.weighed()

    def heard(self) -> int:
        """The least epoch at which another worker may still tell this one something."""
        return self._router_operator.heard()

    def weigh(self) -> dict[BinId, BinWeight]:
        """What the bins on this worker weigh."""
        return self._state_operator.weigh()

    def on_progress(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever commands may have been decided on, or carried out."""
        self._router_operator.on_progress.append(callback)

    def obstacles(self, bin_ids: Iterable[BinId]) -> list[str]:
        """Why some of these bins, if they are on this worker, could not move now.

        It costs what encoding them does: ask for a few at a time.
        """
        return [
            f"bin {bin_id} of operator {self.name!r} cannot leave worker {self.table.worker}: {obstacle}"
            for bin_id in bin_ids
            if (obstacle := self._state_operator.obstacle(bin_id)) is not None
        ]

    def shipped_bytes(self) -> int:
        """How much state has left this worker so far."""
        return self._cores.shipper.shipped_bytes

    def received_bytes(self) -> int:
        """How much has come to it."""
        return self._state_operator.received_bytes

    def eligible(self) -> frozenset[WorkerId]:
        """The workers that may own bins."""
        return frozenset(self._cores.compiler.eligible)

    def decided(self) -> int:
        """The last epoch with commands that was decided on here."""
        return self._cores.compiler.through

    def complete(self) -> int:
        """The least epoch that results may still come out at, on any worker: before it, all bins have arrived."""
        return self._router_operator.complete()


_listed: WeakKeyDictionary[WorkerContext, list[BinnedOperator]] = WeakKeyDictionary()


def operators_on(worker: WorkerContext) -> list[BinnedOperator]:
    """The operators with bins that run on a worker, in the order in which they were built."""
    return list(_listed.get(worker, ()))


def commanded_on(worker: WorkerContext) -> list[BinnedOperator]:
    """Those that move by the job's own commands. Where none is known to, those that were given a control stream may."""
    listed = operators_on(worker)
    return [operator for operator in listed if operator.implied] or listed


def groups_on(worker: WorkerContext) -> dict[str, list[BinnedOperator]]:
    """The operators that move by the job's own commands, by their groups."""
    groups: dict[str, list[BinnedOperator]] = {}
    for operator in commanded_on(worker):
        groups.setdefault(operator.group, []).append(operator)
    return groups


def enlist(worker: WorkerContext, operator: BuiltOperator, binned: BinnedOperator) -> None:
    """List an operator on bins until `operator`, which holds them, is shut down."""
    listed = _listed.setdefault(worker, [])
    for other in listed:
        if other.group == binned.group and other.bins != binned.bins:
            raise GraphError(
                f"operators {other.name!r} and {binned.name!r} are both of group {binned.group!r} and differ in bins: "
                f"{other.bins.count} and {binned.bins.count}; give them the same number, or groups of their own"
            )
    listed.append(binned)
    operator.on_shut_down.append(lambda: listed.remove(binned))
