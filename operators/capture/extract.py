"""What a stream carried, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from framework.dataflow.handle import InputHandle
from framework.progress.order import Time, linear_key
from framework.wire.container import Container

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


class Extracted(Generic[T]):
    """The records that came to this worker, for as long as the dataflow has run."""

    def __init__(self) -> None:
        self._by_time: dict[Time, list[T]] = {}

    @classmethod
    def merged(cls, parts: Sequence[Extracted[T]]) -> Extracted[T]:
        """What several workers have extracted, as if it had come to one: within a time, worker by worker."""
        whole: Extracted[T] = cls()
        for part in parts:
            for time, rows in part._by_time.items():
                whole.add(time, rows)
        return whole

    def add(self, time: Time, container: Container) -> None:
        """Take in a container."""
        self._by_time.setdefault(time, []).extend(container)  # type: ignore[arg-type]

    def rows(self) -> list[T]:
        """All records, by time, and as they arrived within a time."""
        return [row for rows in self.by_time().values() for row in rows]

    def by_time(self) -> dict[Time, list[T]]:
        """The records of each time, in the order of their times."""
        return {time: list(self._by_time[time]) for time in sorted(self._by_time, key=linear_key)}


def extract(stream: Stream[T], *, name: str = "extract") -> Extracted[T]:
    """Collect the records that come to this worker, for tests and small results.

    >>> from framework.launch.execute import example
    >>> from operators.input.iterator_source import iterator_source
    >>> result = example(lambda scope: iterator_source(scope, [(1, ["a", "b"]), (5, ["c"])]).extract())
    >>> result.rows()
    ['a', 'b', 'c']
    >>> result.by_time()
    {1: ['a', 'b'], 5: ['c']}
    """
    extracted: Extracted[T] = Extracted()

    def logic(input: InputHandle) -> None:
        for capability, container in input:
            extracted.add(capability.time, container)

    stream.sink(logic, name=name)
    return extracted
