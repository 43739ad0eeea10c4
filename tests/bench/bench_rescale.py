"""What it costs that workers can join, and what is felt when they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Any

from tests.bench.harness import Bar, Progress, bench
from tests.bench.programs import count_instructions, run_program
from tests.bench.programs.cluster import Load, run_cluster

REPEATS = 3
JOINS = 5
RESCALES = 5
MANY_KEYS, FEW_KEYS = 1_000_000, 50
WAIT_US = 20.0
"""A record's wait where there are more workers than cores: four of them compute for as long as one core does in all."""
SKEWED_KEYS, ZIPF, LOADS_S, SKEWED_RUNS = 100_000, 1.1, 4.0, 3


@bench("rescalable-overhead")
def rescalable_overhead(progress: Progress) -> Iterator[Bar]:
    """WordCount on two workers, against the same with the machinery of joins taken out; by instructions (valgrind).

    The clock says the same within its noise, which is ten times the effect. What a short run executes is subtracted
    from what a long one does, so that starting does not count.
    """
    ratios = []
    for repeat in range(REPEATS):
        spent: dict[str, int] = {}
        for kind in ("fixed", "rescalable"):
            progress(f"repeat {repeat + 1} of {REPEATS}, {kind}")
            short, long = (count_instructions("steady.py", "-w2", kind, epochs) for epochs in ("20", "80"))
            spent[kind] = long - short
        ratios.append(spent["fixed"] / spent["rescalable"])
    yield Bar.of("rescalable / membership fixed, words per instruction", ratios, ">=", 0.97)


@bench("join")
def join(progress: Progress) -> Iterator[Bar]:
    """From a joiner's first connection to its first record; and the longest epoch, beside a run that nobody joins."""
    first: dict[int, list[float]] = {10_000: [], 1_000_000: []}
    beyond, phases, sizes = list[float](), dict[str, list[float]](), list[int]()
    for repeat in range(JOINS):
        for keys, figures in first.items():
            progress(f"repeat {repeat + 1} of {JOINS}, {keys:,} keys")
            load = Load(keys, records=200, epoch_ms=20, seconds=6)
            felt = run_cluster(load, [2.0])
            [joiner] = felt.joiners
            figures.append(joiner["first_record_ms"])
            sizes.append(joiner["inherited_bytes"])
            for phase, spent_ms in joiner["phases_ms"].items():
                phases.setdefault(phase, []).append(spent_ms)
            if keys == 1_000_000:
                beyond.append(felt.longest_ms() - run_cluster(load, []).longest_ms())
    few, many = first.values()
    spent = ", ".join(f"{phase} {median(figures):.1f}" for phase, figures in phases.items())
    note = f"phases in ms: {spent}; {max(sizes):,} bytes of progress state"
    yield Bar.of("join to first record, 10^6 keys", many, "<=", 1000, unit=" ms", note=note)
    growth = [one / other for one, other in zip(many, few, strict=True)]
    yield Bar.of("join to first record, 10^6 keys / 10^4 keys", growth, "<=", 3.0)
    yield Bar.of("longest epoch with a join - untouched, 10^6 keys", beyond, "<=", 100, unit=" ms")


@dataclass(slots=True)
class Rescaled:
    """A WordCount under full load that is scaled up and down again, and what each run of it felt."""

    container: str
    keys: int
    counts: tuple[int, int, int]
    wait_us: float
    up: list[Any] = field(default_factory=list)
    down: list[Any] = field(default_factory=list)
    dry: list[float] = field(default_factory=list)
    untouched_ms: list[float] = field(default_factory=list)
    """The longest gaps between epochs of runs that nobody scales."""

    @property
    def name(self) -> str:
        return f"{self.container}, {self.keys:,} keys"

    def run(self, progress: Progress, repeat: str) -> None:
        """Scale it up and down, and let it be for as long."""
        few, many, _ = self.counts
        progress(f"{repeat}: {self.name}, {few} -> {many} -> {few}")
        told = self._run(*map(str, self.counts))
        up, down = told["windows"]
        self.up.append(up)
        self.down.append(down)
        self.dry.append(told["dry"])
        if self.keys == MANY_KEYS:
            progress(f"{repeat}: {self.name}, {many} untouched")
            [untouched] = self._run(f"{many}", "--untouched", f"{up['command_s'] + down['command_s']}")["windows"]
            self.untouched_ms.append(untouched["gap_ms"])

    def bars(self) -> Iterator[Bar]:
        """What the runs come to."""
        few, many, _ = self.counts
        bar_s = 3.0 if self.keys == MANY_KEYS else 1.0
        spent = [up["fill_s"] for up in self.up]
        start = f"joined {_middle(self.up, 'first_joined_s'):.1f} to {_middle(self.up, 'ready_s'):.1f} s after `scale`"
        said = f"`scale`: {self.up[-1]['said']}"
        name = f"{self.name}, {few} -> {many}, joined to last bin"
        yield Bar.of(name, spent, "<=", bar_s, unit=" s", note=f"{start}; {said}")
        spent = [down["fill_s"] for down in self.down]
        said = f"`scale`: {self.down[-1]['said']}"
        yield Bar.of(f"{self.name}, {many} -> {few}, `scale` to last bin", spent, "<=", bar_s, unit=" s", note=said)
        if self.untouched_ms:
            yield self._stall()

    def _stall(self) -> Bar:
        few, many, _ = self.counts
        longest = [max(up["gap_ms"], down["gap_ms"]) for up, down in zip(self.up, self.down, strict=True)]
        beyond = [one - other for one, other in zip(longest, self.untouched_ms, strict=True)]
        note = (
            f"{few} -> {many} {_middle(self.up, 'gap_ms'):.0f} ms, of that while joiners started "
            f"{_middle(self.up, 'starting_gap_ms'):.0f}; {many} -> {few} {_middle(self.down, 'gap_ms'):.0f}; untouched "
            f"{median(self.untouched_ms):.0f}; {_middle(self.up, 'words_per_s'):,.0f} words/s while scaled up; "
            f"source dry at {median(self.dry):.1%} of writes"
        )
        name = f"{self.name}, {few} -> {many} -> {few}, longest stall - untouched"
        return Bar.of(name, beyond, "<=", 100, unit=" ms", note=note)

    def _run(self, *arguments: str) -> Any:
        wait = ("--wait-us", f"{self.wait_us}")
        [told] = run_program("rescale_load.py", self.container, f"{self.keys}", *arguments, *wait)
        return told


@bench("rescale")
def rescale(progress: Progress, repeats: int = RESCALES) -> Iterator[Bar]:
    """From when the joiners have joined, or `hailer scale` was called, to the last bin; and the longest stall.

    Both are measured at the job's outputs: who counts a bin's words in an epoch that is complete, and the time between
    two completions of epochs, from the call of the command to its end.
    """
    shapes = [((1, 2, 1), 0.0), ((2, 4, 2), WAIT_US)]
    every = [
        Rescaled(container, keys, counts, wait_us)
        for (counts, wait_us), keys, container in product(shapes, (MANY_KEYS, FEW_KEYS), ("rows", "columns"))
    ]
    for repeat, each in product(range(repeats), every):
        each.run(progress, f"{repeat + 1}/{repeats}")
    for each in every:
        yield from each.bars()


@bench("rescale-skew")
def rescale_skew(progress: Progress, repeats: int = SKEWED_RUNS) -> Iterator[Bar]:
    """How much more than the mean the busiest of three workers counts once a third has joined; the worst of all runs.

    Each run draws other keys most. The greatest may be more than a worker's share by itself, and is then the bar.
    """
    for container, first in (("rows", 0), ("columns", repeats)):
        skews, shares = [], set()
        for seed in range(first, first + repeats):
            progress(f"{seed + 1 - first}/{repeats}: {container}")
            arguments = [container, SKEWED_KEYS, 2, 3, "--zipf", ZIPF, "--seed", seed, "--loads", LOADS_S]
            [told] = run_program("rescale_load.py", *map(str, arguments))
            loads = told["windows"][0]["loads"].values()
            skews.append(max(loads) * 3 / sum(loads))
            shares.add(told["greatest_share"])
        [share] = shares
        bar = max(1.25, 3 * share)
        name = f"{container}, Zipf {ZIPF}, {SKEWED_KEYS:,} keys, 2 -> 3, busiest worker / mean"
        note = f"the greatest key is {share:.1%} of all records, {3 * share:.2f} x the mean"
        yield Bar(name, max(skews), bar, "<=", spread=(min(skews), max(skews)), note=note)


def _middle(windows: Sequence[Any], figure: str) -> float:
    return float(median(window[figure] for window in windows))


@bench("progress-state-workers")
def progress_state_workers(progress: Progress) -> Iterator[Bar]:
    """Entries of the progress state, late against early, for 2 to 8 workers."""
    for workers in (2, 4, 8):
        progress(f"10,000 epochs on {workers} workers")
        (early, late), *_ = run_program("progress_state.py", f"-w{workers}", "10000")
        note = f"{late:g} entries"
        yield Bar(f"progress state, {workers} workers, 10^4 epochs / 10^2", late / early, 1.0, "<=", note=note)
