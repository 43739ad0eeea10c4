"""The right to send at a time.

A `Capability` lets its operator send at its time and later ones, at one output, for as long as it is held; the frontier
downstream cannot pass it. An `InputCapability` comes with a message and is good for the current activation: use it to
send, or `retain` it for later.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from framework.errors import CapabilityInvalid, TimeNotCovered
from framework.progress.order import Time


class CapabilityHolder(Protocol):
    """The output port that a capability belongs to."""

    @property
    def label(self) -> str:
        """Which output of which operator, for messages."""

    @property
    def live(self) -> bool:
        """Whether its dataflow runs."""

    def check_time(self, time: Time) -> None:
        """Raise unless `time` is a time of its scope."""

    def change_capability(self, time: Time, delta: int) -> None:
        """Account for capabilities gained or lost, in the worker's thread."""

    def release_later(self, time: Time) -> None:
        """Account for a capability that the garbage collector found, in whatever thread."""


class MessageSource(Protocol):
    """The input port that a message came in by."""

    @property
    def outputs(self) -> Sequence[CapabilityHolder]:
        """The outputs of its operator."""

    def covers(self, time: Time, holder: CapabilityHolder, sent: Time) -> bool:
        """Whether a message at `time` may result in one at `sent` at an output."""


class Capability:
    """Holds the frontier back at `time`, and allows sending there and later.

    Drop it with `drop()` or a `with` block; left to the garbage collector it is released too, with a warning.
    """

    __slots__ = ("__weakref__", "_holder", "_held", "_time")

    def __init__(self, time: Time, holder: CapabilityHolder) -> None:
        self._time = time
        self._holder = holder
        self._held = True
        holder.change_capability(time, 1)
        if _observers:
            for observer in _observers:
                observer(self)

    @property
    def time(self) -> Time:
        """The earliest time that it allows sending at."""
        return self._time

    @property
    def holder(self) -> CapabilityHolder:
        """The output that it belongs to."""
        return self._holder

    @property
    def held(self) -> bool:
        """Whether it has not been dropped."""
        return self._held

    def clone(self) -> Capability:
        """Another one for the same time."""
        return self.delayed(self._time)

    def delayed(self, time: Time) -> Capability:
        """Another one for `time`, which must not be earlier."""
        self._check(time)
        return Capability(time, self._holder)

    def downgrade(self, time: Time) -> None:
        """Give up what is earlier than `time`."""
        self._check(time)
        if time != self._time:
            self._holder.change_capability(time, 1)
            self._holder.change_capability(self._time, -1)
            self._time = time

    def drop(self) -> None:
        """Give it up; doing so again changes nothing."""
        if self._held:
            self._held = False
            self._holder.change_capability(self._time, -1)

    def valid_at(self, holder: CapabilityHolder) -> bool:
        """Whether it allows sending at the output `holder`."""
        return self._held and self._holder is holder

    def _check(self, time: Time) -> None:
        if not self._held:
            raise CapabilityInvalid(
                f"the capability for {self._time!r} at {self._holder.label} was dropped; clone it before dropping it"
            )
        self._holder.check_time(time)
        if not self._time <= time:  # type: ignore[operator]
            raise TimeNotCovered(
                f"the capability for {self._time!r} at {self._holder.label} does not cover {time!r}; "
                f"a capability only moves forward in time: keep a clone at the earlier time if you need one"
            )

    def __enter__(self) -> Capability:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()

    def __del__(self) -> None:
        if getattr(self, "_held", False) and self._holder.live:
            self._held = False
            self._holder.release_later(self._time)
            warnings.warn(
                f"a capability for {self._time!r} at {self._holder.label} was left to the garbage collector, and held "
                f"the frontier back until now; call drop() or use `with`",
                RuntimeWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"<capability for {self._time!r} at {self._holder.label}{'' if self._held else ', dropped'}>"


_observers: list[Callable[[Capability], None]] = []


def observe_capabilities(observer: Callable[[Capability], None]) -> Callable[[], None]:
    """Call `observer` with every new capability of this process; returns what ends that.

    The simulator thus knows what is truly held, from the capabilities themselves and not from how they are accounted.
    """
    _observers.append(observer)
    return lambda: _observers.remove(observer)


class InputCapability:
    """The right to answer one message, until the activation that received it ends."""

    __slots__ = ("_source", "time")

    def __init__(self, time: Time, source: MessageSource) -> None:
        self.time = time
        self._source: MessageSource | None = source

    def retain(self, output: int = 0) -> Capability:
        """A capability at this message's time for one of the operator's outputs, to be kept as long as needed."""
        return self.delayed(self.time, output)

    def delayed(self, time: Time, output: int = 0) -> Capability:
        """A capability at `time`, which must not be earlier than what the message may result in at that output."""
        source = self._current()
        holder = source.outputs[output]
        holder.check_time(time)
        if not source.covers(self.time, holder, time):
            raise TimeNotCovered(
                f"a message at {self.time!r} gives no capability for {time!r} at {holder.label}; ask for its own time "
                f"or a later one, or for what the operator's connection from that input to that output allows"
            )
        return Capability(time, holder)

    def valid_at(self, holder: CapabilityHolder) -> bool:
        """Whether it allows sending at its own time at the output `holder`."""
        return self._current().covers(self.time, holder, self.time)

    def expire(self) -> None:
        """End with the activation."""
        self._source = None

    def _current(self) -> MessageSource:
        if self._source is None:
            raise CapabilityInvalid(
                f"a message's capability for {self.time!r} was used after the activation that received it; call "
                f"retain() while the message is at hand"
            )
        return self._source

    def __repr__(self) -> str:
        return f"<input capability for {self.time!r}{'' if self._source else ', expired'}>"
