"""Draws what epochs feel of a migration, by plan: `python -m tests.bench.plot_migration docs/images/migration.png`.

Needs matplotlib, which is in the extra `plots`: `.venv/bin/pip install -e ".[plots]"`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.programs import run_program

PLANS = ("all-at-once", "fluid", "optimized")
BINS, KEYS_PER_BIN = 1024, 500


def main(path: Path) -> None:
    """Run each plan once and draw the epochs' latencies over time, one above the other."""
    from matplotlib import pyplot  # only who draws needs it

    figure, axes = pyplot.subplots(len(PLANS), sharex=True, sharey=True, figsize=(8, 6), layout="constrained")
    for axis, plan in zip(axes, PLANS, strict=True):
        print(f"running {plan}", file=sys.stderr, flush=True)
        _, result = sorted(run_program("migration.py", "-n2", plan, str(BINS), str(KEYS_PER_BIN), "timeline"), key=len)
        at_s, latency_ms = zip(*result["timeline"], strict=True)
        axis.axvspan(0, result["duration_s"], color="#f3d9b1", label="the plan runs")
        axis.plot(at_s, latency_ms, ".", markersize=2, color="#1f4e79", label="one epoch of 200 records")
        axis.set_yscale("log")
        axis.set_ylabel("latency, ms")
        axis.set_title(f"{plan}: longest {result['stall_ms']:.0f} ms", loc="left", fontsize=10)
    axes[0].legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("seconds since the plan began")
    figure.suptitle(f"A quarter of {BINS * KEYS_PER_BIN:,} keys moves between two processes")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
