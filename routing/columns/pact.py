"""How batches travel by their keys: whole if one worker owns all bins, else divided by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from framework.dataflow.handle import Pusher
from framework.dataflow.pact import Channel, deliver
from framework.membership.members import WorkerId
from framework.progress.order import Time
from framework.wire.container import Reservation
from routing.bins import BinId, Bins
from routing.columns.dictionary import DictionaryEncoder
from routing.columns.keys import HASHES, KeyColumns
from routing.columns.memory import Array, empty
from routing.columns.partition import Division, divide, divide_by, part_of_bin, warm_up
from routing.columns.scatter import with_keys
from routing.load import Sampling
from routing.router_operator import Combine
from routing.routing_table import RoutingTable

SAMPLED_EVERY = 2**17
"""Of this many rows, `SAMPLED_ROWS` are hashed to tell the load of bins: less than a hundredth of their work."""
SAMPLED_ROWS = 512


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """Records of a stream of columns by their key: a `routing.placement.Keying`."""

    key: KeyColumns
    combine: Combine | None = None
    dictionaries: bool = False
    """Whether keys that recur may be dictionary-encoded."""

    def sampling(self, bins: Bins) -> Sampling:
        def sample(batch: Any) -> list[BinId]:
            hashes = self.key.hashes(batch.slice(0, SAMPLED_ROWS))
            return list(map(BinId, (hashes >> np.uint64(bins.shift)).tolist()))

        return Sampling(sample, SAMPLED_EVERY)

    def by_bin(self, table: RoutingTable, bins: Bins) -> ColumnsByBin:
        return ColumnsByBin(table, bins, self)

    def by_hash(self, bins: Bins) -> ColumnsFixed:
        return ColumnsFixed(bins, self)


@dataclass(frozen=True, slots=True)
class ColumnsByBin:
    """Each row goes to the owner of its bin at its time."""

    table: RoutingTable
    bins: Bins
    keying: ColumnKey

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        table, divider = self.table, _Divider(self.bins, self.keying)

        def push(time: Time, batch: Any) -> None:
            assert isinstance(time, int), time
            sole = table.sole_owner_at(time)
            if sole is not None:
                deliver(channel, sole, time, batch)
                return
            divider(channel, time, batch, table.owners_at(time))

        return push


@dataclass(frozen=True, slots=True)
class ColumnsFixed:
    """Each row goes to the worker that first owned its bin, one of those that the job began with."""

    bins: Bins
    keying: ColumnKey

    to_all = False

    def pusher(self, channel: Channel) -> Pusher:
        founders, divider = channel.founders(), _Divider(self.bins, self.keying)
        owners = self.bins.initial_owners(founders)

        def push(time: Time, batch: Any) -> None:
            if len(founders) == 1:
                deliver(channel, founders[0], time, batch)
            else:
                divider(channel, time, batch, owners)

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
            for worker, part in zip(workers, divide_by(batch, parts, len(workers)), strict=True):
                if len(part):
                    deliver(channel, worker, time, part)

        return push


class _Divider:
    """Sends the rows of batches to the owners of their bins. How to divide is computed when owners change."""

    def __init__(self, bins: Bins, keying: ColumnKey) -> None:
        self._shift = bins.shift
        self._key = keying.key
        self._owners: Sequence[WorkerId] = ()
        self._encoder = DictionaryEncoder.of(self._key) if keying.dictionaries else None
        warm_up(self._key)

    def __call__(self, channel: Channel, time: Time, batch: Any, owners: Sequence[WorkerId]) -> None:
        if owners is not self._owners:
            self._owners, self._workers = owners, sorted(set(owners))
            self._division = Division(self._shift, part_of_bin(owners, self._workers), len(self._workers))
        reservations: list[Reservation | None] = [None] * len(self._workers)

        def reserve(part: int, size: int) -> memoryview | None:
            worker = self._workers[part]
            if worker == channel.worker:
                return None
            reservation = reservations[part] = channel.reserve(worker, size)
            return None if reservation is None else reservation.memory

        parts = self._with_dictionaries(batch) or divide(batch, self._key, self._division, reserve)
        for worker, part, reservation in zip(self._workers, parts, reservations, strict=True):
            if len(part):
                deliver(channel, worker, time, part, reservation)

    def _with_dictionaries(self, batch: pa.RecordBatch) -> list[pa.RecordBatch] | None:
        """The parts with keys dictionary-encoded; None if they recur too little, or have been hashed already."""
        if self._encoder is None or batch.schema.get_field_index(HASHES) >= 0:
            return None
        [name] = self._key.names
        part_of_row = empty(len(batch) if batch.num_columns > 1 else 0, np.uint16)
        keys = self._encoder.encode(batch, self._division, part_of_row)
        return None if keys is None else with_keys(batch, name, keys, part_of_row)
