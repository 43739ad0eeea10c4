"""What a bench is, and what it reports.

A bench is a function in a module `tests/bench/bench_*.py`, registered under a name. It measures, calls `progress`
with a few words whenever the reader would otherwise wonder, and yields the bars that it stands for:

    @bench("rows-wordcount")
    def rows_wordcount(progress: Progress) -> Iterator[Bar]:
        speeds = ratios(dataflow, bare_loop, repeats=5, progress=progress)
        yield Bar.of("rows, one worker / bare loop", speeds, ">=", 1 / 3, unit="x")

Figures are ratios of two things measured in the same run, so that they mean the same on another machine. They are
printed, and never decide whether a test passes.
"""

from __future__ import annotations

import difflib
import gc
import importlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

Direction = Literal[">=", "<="]
Progress = Callable[[str], None]
Bench = Callable[[Progress], Iterable["Bar"]]


class UnknownBench(Exception):
    """A bench was asked for by a name that none has."""


class CannotRun(Exception):
    """What a bench needs is not there; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and the bar that it must clear."""

    name: str
    measured: float
    bar: float
    direction: Direction
    unit: str = "x"
    spread: tuple[float, float] | None = None
    """The least and the greatest of the repeats."""
    note: str = ""

    @staticmethod
    def of(
        name: str, figures: Sequence[float], direction: Direction, bar: float, *, unit: str = "x", note: str = ""
    ) -> Bar:
        """A bar for the median of repeated measurements."""
        return Bar(name, median(figures), bar, direction, unit, (min(figures), max(figures)), note)

    @property
    def holds(self) -> bool:
        return self.measured >= self.bar if self.direction == ">=" else self.measured <= self.bar


def bench(name: str) -> Callable[[Bench], Bench]:
    """Registers a bench under the name that `make bench BENCH=name` takes."""

    def register(function: Bench) -> Bench:
        other = _registry.setdefault(name, function)
        assert other is function, f"two benches are called {name!r}: {other!r} and {function!r}"
        return function

    return register


def discover() -> dict[str, Bench]:
    """Every bench of the modules `bench_*.py` beside this one, by name."""
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        importlib.import_module(f"{__package__}.{path.stem}")
    return dict(_registry)


def select(benches: Mapping[str, Bench], names: Sequence[str]) -> Mapping[str, Bench]:
    """The benches called `names`, or all of them if none is named."""
    for name in names:
        if name not in benches:
            close = difflib.get_close_matches(name, benches, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            known = "".join(f"\n  {known}" for known in sorted(benches)) or " none"
            raise UnknownBench(f"no bench is called {name!r}{hint}\nThere are:{known}")
    return {name: benches[name] for name in names} if names else benches


def seconds(function: Callable[[], object]) -> float:
    """How long one call takes, without the garbage of whatever ran before it."""
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def ratios(
    ours: Callable[[], object], baseline: Callable[[], object], *, repeats: int, progress: Progress
) -> list[float]:
    """How fast `ours` is as a multiple of `baseline`'s speed, both doing the same work.

    The two take turns, after one round that is not counted, so that a machine that slows down slows both.
    """
    figures = []
    for repeat in range(repeats + 1):
        progress(f"repeat {repeat} of {repeats}" if repeat else "warming up")
        figures.append(seconds(baseline) / seconds(ours))
    return figures[1:]


def table(bars: Sequence[Bar]) -> list[str]:
    """One line per bar, in aligned columns."""
    rows = [_row(bar) for bar in bars]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    right_aligned = {1, 3}
    return [
        "  ".join(
            cell.rjust(width) if column in right_aligned else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _row(bar: Bar) -> tuple[str, ...]:
    spread = f"({_figure(bar.spread[0])}..{_figure(bar.spread[1])})" if bar.spread else ""
    unit = bar.unit if bar.unit in {"x", "%", ""} else f" {bar.unit}"
    return (
        bar.name,
        f"{_figure(bar.measured)}{unit}",
        spread,
        f"bar {bar.direction} {_figure(bar.bar)}{unit}",
        "holds" if bar.holds else "misses",
        bar.note,
    )


def _figure(value: float) -> str:
    """Three significant digits, without an exponent."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


_registry: dict[str, Bench] = {}
