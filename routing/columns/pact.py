"""How batches travel by their keys: whole where they can, else divided by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from framework.dataflow.handle import Pusher
from framework.dataflow.pact import Channel, deliver
from framework.membership import WorkerId
from framework.progress.order import Time
from routing.bins import Bins
from routing.columns.keys import KeyColumns
from routing.columns.memory import Array
from routing.columns.partition import divided, divided_by, part_of_bin, warm_up
from routing.forwarder import Combine
from routing.router import Router


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """Records of a stream of columns by their key: a `routing.stateful.Keying`."""

    key: KeyColumns
    combine: Combine | None = None

    def by_bin(self, router: Router, bins: Bins) -> ColumnsByBin:
        return ColumnsByBin(router, bins, self.key)

    def by_hash(self, bins: Bins) -> ColumnsFixed:
        return ColumnsFixed(bins, self.key)


@dataclass(frozen=True, slots=True)
class ColumnsByBin:
    """Each row goes to the owner of its bin at its time."""

    router: Router
    bins: Bins
    key: KeyColumns

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        router, divide = self.router, _Divider(self.bins, self.key)

        def push(time: Time, batch: Any) -> None:
            assert isinstance(time, int), time
            sole = router.sole_owner_at(time)
            if sole is not None:
                deliver(channel, sole, time, batch)
                return
            divide(channel, time, batch, router.table_at(time))

        return push


@dataclass(frozen=True, slots=True)
class ColumnsFixed:
    """Each row goes to the worker that first owned its bin, one of those that the job began with."""

    bins: Bins
    key: KeyColumns

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        founders, divide = channel.founders(), _Divider(self.bins, self.key)
        owners = self.bins.initial_owners(founders)

        def push(time: Time, batch: Any) -> None:
            if len(founders) == 1:
                deliver(channel, founders[0], time, batch)
            else:
                divide(channel, time, batch, owners)

        return push


@dataclass(frozen=True, slots=True)
class ColumnsExchange:
    """Each row goes to the worker that its number in `route(batch)`, modulo the number of workers, names.

    `fixed`: among the workers that the job began with, so that a number keeps its worker.
    """

    route: Callable[[Any], Array]
    fixed: bool = False

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        founders = channel.founders() if self.fixed else None

        def push(time: Time, batch: Any) -> None:
            workers = founders or channel.members().workers
            if len(workers) == 1:
                deliver(channel, workers[0], time, batch)
                return
            parts = (self.route(batch) % len(workers)).astype(np.int64)
            for worker, part in zip(workers, divided_by(batch, parts, len(workers)), strict=True):
                if len(part):
                    deliver(channel, worker, time, part)

        return push


class _Divider:
    """Sends the rows of batches to the owners of their bins; it remembers who these are from one batch to the next."""

    def __init__(self, bins: Bins, key: KeyColumns) -> None:
        self._shift = bins.shift
        self._key = key
        self._owners: Sequence[WorkerId] = ()
        warm_up()

    def __call__(self, channel: Channel, time: Time, batch: Any, owners: Sequence[WorkerId]) -> None:
        if owners is not self._owners:
            self._owners, self._workers = owners, sorted(set(owners))
            self._part_of_bin = part_of_bin(owners, self._workers)
        hashes = self._key.hashes(batch)
        parts = divided(batch, hashes, self._shift, self._part_of_bin, len(self._workers))
        for worker, part in zip(self._workers, parts, strict=True):
            if len(part):
                deliver(channel, worker, time, part)
