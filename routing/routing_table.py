"""Who owns which bin at which time, as one worker sees it, and which bins it must ship.

A `RoutingTable` decides where records of a time go and when a configuration takes effect. F drives it: it announces
what the `Compiler` accepted, asks for the owners at each batch's time, and, as S's output frontier moves, installs and
ships what leaves this worker. How a bin's state travels is not decided here.

Between its announcement and its installation a configuration is *pending*: records at or after its time are routed by
it already, while bins still are where the installed table has them. It is installed once S's output frontier has
reached its time, that is once everything earlier has been applied everywhere: then a bin's state is what its new owner
must begin with (Megaphone 3.4).

Times are the epochs of the root scope.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from framework.membership.members import WorkerId
from framework.wire import codec
from routing.bins import BinId
from routing.commands import Configuration


@dataclass(frozen=True, slots=True)
class Ship:
    """A bin leaves this worker."""

    bin_id: BinId
    target: WorkerId


@dataclass(frozen=True, slots=True)
class Installation:
    """A configuration took effect on this worker; these bins leave it, by ascending bin."""

    time: int
    sequence: int
    ships: list[Ship]


@dataclass(frozen=True, slots=True)
class RoutingState:
    """What a joiner must know to route: the installed table, since when, and what will change it."""

    owners: tuple[WorkerId, ...]
    since: int
    pending: tuple[Configuration, ...]


codec.register(RoutingState, "routing.RoutingState")


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owner of each bin during an interval of times. Immutable: F may keep a reference."""

    owners: list[WorkerId]
    sole: WorkerId | None

    @staticmethod
    def of(owners: list[WorkerId]) -> _Owners:
        sole = owners[0] if owners and owners.count(owners[0]) == len(owners) else None
        return _Owners(owners, sole)


@dataclass(slots=True)
class RoutingTable:
    """The installed table of one worker and the configurations to come.

    A joiner has no owners until it restores them, and routes nothing before.
    """

    worker: WorkerId
    owners: list[WorkerId]
    """The installed table."""
    since: int = 0
    """The time from which on it holds: no earlier record is left anywhere."""
    _pending: list[Configuration] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    """Those of the pending configurations."""
    _tables: list[_Owners | None] = field(default_factory=list)
    """The installed table, and the one after each pending configuration, made when first asked for."""

    def __post_init__(self) -> None:
        self._tables = [_Owners.of(self.owners)]

    @property
    def ready(self) -> bool:
        """Whether this worker knows who owns what."""
        return bool(self.owners)

    @property
    def pending(self) -> list[int]:
        """The times of configurations that are not yet installed, ascending, one for each."""
        return list(self._times)

    def announce(self, configuration: Configuration) -> None:
        """Route by `configuration` from its time on. Times ascend; at one time, sequences do."""
        assert self.ready, f"worker {self.worker} got {configuration} before its owners"
        assert configuration.time >= self.since, f"{configuration} is older than the table installed at {self.since}"
        if self._pending:
            last = self._pending[-1]
            assert (last.time, last.sequence) < (configuration.time, configuration.sequence), (
                f"{configuration} announced after {last}"
            )
        self._pending.append(configuration)
        self._times.append(configuration.time)
        self._tables.append(None)

    def owners_at(self, time: int) -> Sequence[WorkerId]:
        """The owner of each bin at `time`. Hot path: called per batch."""
        return self._table_at(time).owners

    def sole_owner_at(self, time: int) -> WorkerId | None:
        """The worker that owns every bin at `time`, if one does: then no key need be hashed."""
        return self._table_at(time).sole

    def install(self, reached: Callable[[int], bool]) -> list[Installation]:
        """Install, in order, every pending configuration whose time S's output frontier has `reached`."""
        installations = []
        while self._pending and reached(self._times[0]):
            configuration = self._pending[0]
            ships = [
                Ship(bin_id, target)
                for bin_id, target in configuration.moves.items()
                if self.owners[bin_id] == self.worker != target
            ]
            installations.append(Installation(configuration.time, configuration.sequence, ships))
            self.owners = self._table_after(1).owners
            self.since = configuration.time
            del self._pending[0], self._times[0], self._tables[0]
        return installations

    def state(self) -> RoutingState:
        """What a joiner restores; encodable."""
        assert self.ready, f"worker {self.worker} cannot hand over what it does not have"
        return RoutingState(tuple(self.owners), self.since, tuple(self._pending))

    def restore(self, state: RoutingState) -> bool:
        """Take over another worker's table; whether this one needed it. A worker that routes already ignores it."""
        if self.ready:
            return False
        self.owners, self.since = list(state.owners), state.since
        self._tables = [_Owners.of(self.owners)]
        for configuration in state.pending:
            self.announce(configuration)
        return True

    def validate(self) -> None:
        """Check that the collections agree with each other."""
        assert self._times == [configuration.time for configuration in self._pending]
        assert len(self._tables) == len(self._pending) + 1
        assert self._tables[0] == _Owners.of(self.owners)
        assert all(self.since <= time for time in self._times), (self.since, self._times)
        order = [(configuration.time, configuration.sequence) for configuration in self._pending]
        assert all(earlier < later for earlier, later in pairwise(order)), order
        owners, moved = list(self.owners), set[tuple[int, BinId]]()
        for configuration, table in zip(self._pending, self._tables[1:], strict=True):
            assert list(configuration.moves) == sorted(configuration.moves), configuration
            for bin_id, worker in configuration.moves.items():
                assert 0 <= bin_id < len(owners), configuration
                assert owners[bin_id] != worker, f"bin {bin_id} is on worker {worker} before {configuration}"
                assert (configuration.time, bin_id) not in moved, f"bin {bin_id} moves twice at {configuration.time}"
                moved.add((configuration.time, bin_id))
                owners[bin_id] = worker
            assert table is None or table == _Owners.of(owners), (configuration, table, owners)

    def _table_at(self, time: int) -> _Owners:
        assert self.ready, f"worker {self.worker} routes before it knows the owners"
        assert time >= self.since, f"a record at {time} after the table of {self.since} was installed"
        return self._table_after(bisect_right(self._times, time))

    def _table_after(self, index: int) -> _Owners:
        """The table after `index` pending configurations: one copy of the nearest table before it, updated."""
        found = self._tables[index]
        if found is not None:
            return found
        start = next(earlier for earlier in range(index - 1, -1, -1) if self._tables[earlier] is not None)
        base = self._tables[start]
        assert base is not None
        if any(configuration.moves for configuration in self._pending[start:index]):
            owners = list(base.owners)
            for configuration in self._pending[start:index]:
                for bin_id, worker in configuration.moves.items():
                    owners[bin_id] = worker
            base = _Owners.of(owners)
        self._tables[index] = base
        return base
