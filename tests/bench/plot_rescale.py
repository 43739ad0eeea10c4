"""Draws what epochs feel of two joins: `python -m tests.bench.plot_rescale docs/images/rescale.png`.

Above, each record costs its worker a wait of 0.2 ms, and two processes cannot keep up; each that joins carries its
share, on any number of cores. Below, half of a million keys' records are plain counts, and beside it the same run
untouched: what a join itself is felt as. Needs matplotlib, in the extra `plots`: `.venv/bin/pip install -e ".[plots]"`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.programs.cluster import Felt, Load, run_cluster

SATURATING = Load(keys=10_000, records=120, epoch_ms=20, seconds=24, wait_us=200)
PLAIN = Load(keys=1_000_000, records=200, epoch_ms=20, seconds=24)
JOINS_S = [6.0, 14.0]


def main(path: Path) -> None:
    """Run the three loads and draw the epochs' latencies over time."""
    from matplotlib import pyplot, ticker  # only who draws needs it

    runs: list[tuple[str, Felt]] = []
    for title, load, joins in (
        ("6,000 records a second that wait 0.2 ms each: 2 to 3 to 4 processes", SATURATING, JOINS_S),
        ("10,000 plain records a second, 1,000,000 keys: 2 to 3 to 4 processes", PLAIN, JOINS_S),
        ("the same, untouched", PLAIN, []),
    ):
        print(f"running: {title}", file=sys.stderr, flush=True)
        runs.append((title, run_cluster(load, joins)))
    figure, axes = pyplot.subplots(len(runs), sharex=True, figsize=(8, 7), layout="constrained")
    for axis, (title, felt) in zip(axes, runs, strict=True):
        at_s, latency_ms = zip(*felt.timeline, strict=True)
        axis.plot(at_s, latency_ms, ".", markersize=2, color="#1f4e79", label="one epoch, every 20 ms")
        for joined_s, worker in felt.joined:
            axis.axvline(joined_s, color="#c0504d", linewidth=1, label=f"worker {worker} joins")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.yaxis.set_minor_formatter(
            ticker.FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
        )
        axis.set_ylabel("latency, ms")
        axis.set_title(f"{title}; longest {felt.longest_ms():.0f} ms", loc="left", fontsize=10)
    axes[0].legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
