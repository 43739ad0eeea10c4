"""Windows of rows as an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.stateful.placement import place
from operators.stateful.process import Process, ProcessLogic
from operators.stateful.windows.late_count import LateCount, list_count
from operators.stateful.windows.result import Late, Windowed
from routing.commands import Control
from routing.options import BinOptions
from routing.placement import Key

if TYPE_CHECKING:
    from operators.stream import Stream


def place_windows(
    stream: Stream[Any],
    windows: Process,
    *,
    key: Key,
    control: Stream[Control] | None,
    bins: int | BinOptions,
    name: str,
) -> Windowed[Any, Any, Any]:
    """Run `windows` on the records of `stream`; part the results from the records that are late."""
    options, count = BinOptions.of(bins), LateCount(stream.scope.worker, name)
    placed = place(
        [(stream, key)],
        lambda: _WindowLogic(windows, key, options, name, count),
        control=control,
        options=options,
        name=name,
    )
    list_count(placed.outlet, count)
    results, late = placed.partition(2, lambda item: type(item) is Late, name=f"{name}: late")
    return Windowed(results, late)


class _WindowLogic(ProcessLogic):
    """Windows as the logic of S."""

    def __init__(self, windows: Process, key: Key, options: BinOptions, name: str, count: LateCount) -> None:
        super().__init__(windows, [key], options, name)
        self._count = count

    def apply(self, port: int, time: int, rows: list[Any]) -> list[Any]:
        """Apply records; those that are late come out at once, and results when an epoch is complete."""
        late = super().apply(port, time, rows)
        self._count.add(records=len(rows), late=len(late))
        return late
