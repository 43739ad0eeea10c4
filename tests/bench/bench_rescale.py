"""What it costs that workers can join, and what is felt when they do."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tests.bench.harness import Bar, Progress, bench
from tests.bench.programs import count_instructions, run_program
from tests.bench.programs.cluster import Load, run_cluster

REPEATS = 3
JOINS = 5


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


@bench("progress-state-workers")
def progress_state_workers(progress: Progress) -> Iterator[Bar]:
    """Entries of the progress state, late against early, for 2 to 8 workers."""
    for workers in (2, 4, 8):
        progress(f"10,000 epochs on {workers} workers")
        (early, late), *_ = run_program("progress_state.py", f"-w{workers}", "10000")
        note = f"{late:g} entries"
        yield Bar(f"progress state, {workers} workers, 10^4 epochs / 10^2", late / early, 1.0, "<=", note=note)
