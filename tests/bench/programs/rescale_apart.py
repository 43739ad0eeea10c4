"""A third process joins a WordCount whose processes are far apart: how long is the longest epoch?

    .venv/bin/python -m tests.bench.programs.rescale_apart 25

Each process is on a host of its own, from which a packet takes so long to each other one (`tests.hosts`, which says
what that needs). The load is that of `rescale.py`. It is run with a join in the middle, and without.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.programs.cluster import Apart, Felt, Load, run_cluster
from tests.hosts import distant_hosts


def main() -> None:
    """Run both, and print the longest epochs."""
    parser = ArgumentParser(description="A join to a job whose processes are far apart.")
    parser.add_argument("delay_ms", type=float)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=200, help="in an epoch")
    parser.add_argument("--epoch-ms", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    flags = parser.parse_args()
    load = Load(flags.keys, flags.records, flags.epoch_ms, flags.seconds)
    with TemporaryDirectory() as name, distant_hosts(3, flags.delay_ms) as hosts:
        untouched, joined = (run_cluster(load, joins, Apart(hosts, Path(name))) for joins in ([], [flags.seconds / 2]))
    [joiner] = joined.joiners
    print(f"untouched      {told(untouched)}")
    print(f"with a joiner  {told(joined)}")
    print(f"stall          {joined.longest_ms() - untouched.longest_ms():.0f} ms more than untouched")
    print(f"join           {joiner['joined_ms']:.0f} ms, to the first record {joiner['first_record_ms']:.0f} ms")
    print(", ".join(f"{phase} {spent_ms:.0f}" for phase, spent_ms in joiner["phases_ms"].items()))


def told(felt: Felt) -> str:
    """An epoch's latency in brief."""
    ranked = sorted(latency_ms for _, latency_ms in felt.timeline)
    return f"epoch p50 {ranked[len(ranked) // 2]:.0f} ms, longest {ranked[-1]:.0f} ms"


if __name__ == "__main__":
    main()
