"""What an input, or the control stream, is given at which epoch: whatever comes next, or what somebody chose for it.

Pure; the run loop (`operators.job.run_loop`) asks, an epoch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar, get_args

from framework.errors import ConfigError
from framework.progress.order import EPOCH_MAX
from routing.commands import Instruction

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Schedule(Protocol[T_co]):
    """Something for each of some epochs."""

    def take(self, epoch: int) -> T_co | None:
        """What there is at `epoch`, if anything. Epochs ascend."""

    def after(self, epoch: int) -> int | None:
        """The next epoch that may have something; None if none has."""


class Successive(Generic[T]):
    """The next thing of an iterator at each epoch, until it ends. It is not asked for before its epoch has come."""

    def __init__(self, iterator: Iterator[T]) -> None:
        self._iterator = iterator
        self._ended = False

    def take(self, epoch: int) -> T | None:
        thing = next(self._iterator, None)
        self._ended = thing is None
        return thing

    def after(self, epoch: int) -> int | None:
        return None if self._ended else epoch + 1


class Chosen(Generic[T]):
    """Something at each epoch that somebody chose."""

    def __init__(self, at: Mapping[int, T]) -> None:
        self._at = dict(at)
        self._epochs = sorted(at, reverse=True)

    def take(self, epoch: int) -> T | None:
        return self._at.pop(epoch, None)

    def after(self, epoch: int) -> int | None:
        while self._epochs and self._epochs[-1] <= epoch:
            self._epochs.pop()
        return self._epochs[-1] if self._epochs else None


def chosen_records(name: str, records: Mapping[int, Iterable[Any]]) -> dict[int, list[Any]]:
    """The records that an input is to have at each epoch, as lists; `ConfigError` if they are no such thing."""
    where = f"input {name!r}"
    for epoch, rows in records.items():
        _check_epoch(where, epoch)
        if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
            raise ConfigError(f"{where} is given {rows!r} at epoch {epoch}; give a list of records")
    return {epoch: list(rows) for epoch, rows in records.items()}


def chosen_commands(commands: Mapping[int, Iterable[Instruction]]) -> dict[int, list[Instruction]]:
    """The set of instructions for each epoch; `ConfigError` if they are no such thing."""
    for epoch, instructions in commands.items():
        _check_epoch("commands", epoch)
        if not isinstance(instructions, Iterable):
            raise ConfigError(f"commands has {instructions!r} at epoch {epoch}; give a list of instructions")
    sets = {epoch: list(instructions) for epoch, instructions in commands.items()}
    for epoch, instructions in sets.items():
        for instruction in instructions:
            if not isinstance(instruction, get_args(Instruction)):
                raise ConfigError(
                    f"commands has {instruction!r} at epoch {epoch}, which is no instruction; "
                    f"give those of `operators.commands`, such as Move(bin, worker)"
                )
    return sets


def _check_epoch(where: str, epoch: object) -> None:
    if type(epoch) is not int or not 0 <= epoch <= EPOCH_MAX:
        raise ConfigError(f"{where} has an epoch {epoch!r}; epochs are integers from 0 to {EPOCH_MAX}")
