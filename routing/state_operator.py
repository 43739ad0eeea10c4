"""S, Megaphone's state operator: applies records to the state of their keys, in the order of times.

S holds records back until neither a record of an earlier time nor state for their own time can still arrive, then gives
them to the operator's logic, which never learns where bins come from. Timers that the logic sets go off when their time
is complete. The same S serves operators on bins and operators fixed by hash, which receive no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Protocol

from framework.dataflow.capability import Capability, InputCapability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.operator import BuiltOperator
from framework.wire import codec
from framework.wire.container import Container
from routing.bins import BinId
from routing.load import BinWeight, LoadMeter, weigh
from routing.migration.transfer import Chunk, Prepare, Reassembly, StateMessage, acknowledge, size_of
from routing.state.backend import BinState
from routing.state.timers import PendingTimers


class StateLogic(Protocol):
    """What a stateful operator does with the records of its bins."""

    @property
    def bin_state(self) -> BinState:
        """Where its bins are."""

    @property
    def timers(self) -> PendingTimers:
        """The timers of its bins."""

    def apply(self, port: int, time: int, rows: Any) -> Container:
        """Apply a container of an input, all at `time`; return what it results in."""

    def on_due(self, time: int) -> Container:
        """Let the timers of `time`, which is complete, go off; return what that results in."""


class StateOperator:
    """S: one operator's records, capabilities and logic on one worker."""

    def __init__(
        self,
        operator: BuiltOperator,
        logic: StateLogic,
        data: Sequence[InputHandle],
        state: InputHandle | None,
        output: OutputHandle,
        acks: OutputHandle | None,
        load: LoadMeter | None = None,
    ) -> None:
        self._operator = operator
        self._logic = logic
        self._data = data
        self._state = state
        self._output = output
        self._acks = acks
        self._load = load
        self._early: dict[int, tuple[Capability, list[tuple[int, Container]]]] = {}
        self._early_times: list[int] = []
        self._held: dict[int, Capability] = {}
        self._arriving = Reassembly()
        self.received_bytes = 0
        """How much state has come from other workers so far."""
        operator.on_shut_down.append(self._give_up)

    @property
    def path(self) -> str:
        """Where it is in the worker's dataflows."""
        return self._operator.path

    def weigh(self) -> dict[BinId, BinWeight]:
        """What the bins on this worker weigh."""
        bin_state = self._logic.bin_state
        loads = self._load.records_per_s() if self._load is not None else {}
        return weigh(bin_state.bins(), bin_state.entry_bytes(), loads)

    def keys_per_bin(self) -> dict[BinId, int]:
        """The bins that hold anything on this worker, with their numbers of keys."""
        return self._logic.bin_state.bins()

    def obstacle(self, bin_id: BinId) -> str | None:
        """Why a bin could not move now, if so."""
        return self._logic.bin_state.obstacle(bin_id)

    def activate(self) -> None:
        """Do what there is to do."""
        self._install_state()
        self._run_due()  # before what has just arrived, which may be later
        self._receive()
        self._run_due()

    def release(self) -> None:
        """A bin has left: drop the capabilities for times at which only it had timers."""
        timers = self._logic.timers
        for time in timers.emptied_times:
            if not timers.any_at(time) and time in self._held:
                self._held.pop(time).drop()
        timers.emptied_times.clear()

    def _install_state(self) -> None:
        if self._state is None or self._acks is None:
            return
        for capability, messages in self._state:
            for message in messages:
                self._install(message, capability)
                self.received_bytes += size_of(message)
            self._acks.session(capability).give_container(acknowledge(messages))

    def _install(self, message: StateMessage, capability: InputCapability) -> None:
        if isinstance(message, Prepare):
            if self._load is not None:
                self._load.give(message.bin_id, message.records_per_s)
            return
        payload = self._arriving.add(message)
        if payload is None:
            return
        if isinstance(message, Chunk):
            self._logic.bin_state.install(message.bin_id, payload)
        else:
            self._logic.bin_state.install_timers(message.bin_id, codec.decode_rows(payload))
            self._hold_new(capability)

    def _receive(self) -> None:
        for port, handle in enumerate(self._data):
            for capability, rows in handle:
                time = capability.time
                assert isinstance(time, int), time
                if time not in self._early and self._may_apply(time):
                    self._apply(capability, port, time, rows)
                    continue
                if time not in self._early:
                    self._early[time] = capability.retain(), []
                    heappush(self._early_times, time)
                self._early[time][1].append((port, rows))

    def _run_due(self) -> None:
        """Go through the times that have come, in order: at each, records first, then timers."""
        timers = self._logic.timers
        while True:
            timers_at = timers.first()
            if self._early_times and (timers_at is None or self._early_times[0] <= timers_at):
                if not self._may_apply(self._early_times[0]):
                    return
                self._apply_early(heappop(self._early_times))
            elif timers_at is not None and self._is_complete(timers_at):
                self._on_due(timers_at)
            else:
                return

    def _apply_early(self, time: int) -> None:
        self._operator.time = time
        capability, arrived = self._early.pop(time)
        with capability:
            for port, rows in arrived:
                self._apply(capability, port, time, rows)

    def _apply(self, capability: Capability | InputCapability, port: int, time: int, rows: Container) -> None:
        self._output.session(capability).give_container(self._logic.apply(port, time, rows))
        self._hold_new(capability)
        if self._load is not None:
            self._load.note(port, rows)

    def _on_due(self, time: int) -> None:
        self._operator.time = time
        with self._held.pop(time) as capability:
            self._output.session(capability).give_container(self._logic.on_due(time))
            self._hold_new(capability)

    def _hold_new(self, capability: Capability | InputCapability) -> None:
        """Keep a capability for every time that has timers."""
        new_times = self._logic.timers.new_times
        while new_times:
            time = new_times.pop()
            if time not in self._held:
                self._held[time] = capability.delayed(time)

    def _may_apply(self, time: int) -> bool:
        """Whether nothing earlier, and no state for this time, can still arrive."""
        if any(handle.frontier.less_than(time) for handle in self._data):
            return False
        return self._state is None or not self._state.frontier.less_equal(time)

    def _is_complete(self, time: int) -> bool:
        """Whether nothing at or before this time can still arrive."""
        if any(handle.frontier.less_equal(time) for handle in self._data):
            return False
        return self._state is None or not self._state.frontier.less_equal(time)

    def _give_up(self) -> None:
        for capability, _ in self._early.values():
            capability.drop()
        for capability in self._held.values():
            capability.drop()
        self._early.clear()
        self._held.clear()
        self._logic.bin_state.close()
