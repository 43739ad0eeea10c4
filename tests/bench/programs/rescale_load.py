"""Scales a WordCount under full load with `hailer scale`; prints what its outputs felt, if its counts are right.

    python -m tests.bench.programs.rescale_load (rows | columns) KEYS COUNT [COUNT ...] [--zipf S --seed N]
    python -m tests.bench.programs.rescale_load (rows | columns) KEYS COUNT --untouched SECONDS

The job begins with as many processes as the first count says, and is scaled to each of the others. Its source is a pipe
that never runs dry. Every key has a state before; then keys are drawn evenly, or as Zipf's law has it. With `--wait-us`
each record costs a wait. With `--loads` so many seconds pass after each scale, in which each worker's records are
counted.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.bench.programs.running_job import JobWentWrong, RunningJob, running_job
from tests.bench.programs.word_feed import WordFeed, vocabulary

JOB = Path(__file__).with_name("rescale_job.py")
DRAWN, CHUNK_WORDS = 1_000_000, 5_000
SETTLE_S, AFTER_S, SCALE_S_MAX = 2.0, 1.0, 250.0


def main(flags: Namespace) -> dict[str, Any]:
    """Run it, and tell."""
    words, shares, random = vocabulary(flags.keys), zipf(flags.keys, flags.zipf), np.random.default_rng(flags.seed)
    drawn = random.choice(random.permutation(flags.keys), DRAWN, p=shares)
    settings = json.dumps({"columns": flags.container == "columns", "wait_us": flags.wait_us})
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        feed = WordFeed(folder / "lines", words, drawn, chunk_words=CHUNK_WORDS)
        ends = ("--input", "lines=lines", "--output", "tallies=tallies")
        begins = (f"-n{flags.counts[0]}", *ends)
        with feed.writing(), running_job(folder, JOB, *begins, environment={"RESCALE_JOB": settings}) as job:
            job.wait_for_keys(flags.keys)
            (folder / "loaded").touch()
            time.sleep(SETTLE_S)
            windows = untouched(flags.untouched) if flags.untouched else scaled(job, flags.counts[1:], flags.loads)
            feed.close()
            job.end()
        felt = json.loads((folder / "felt.json").read_text())
        tallies = list(job.rows("tallies"))
    check(tallies, feed.counts())
    for window in windows:
        window |= what_was_felt(window, felt, tallies) | {"loads": loads(window, tallies)}
    return {"windows": windows, "dry": feed.dry(), "greatest_share": shares[0]}


def scaled(job: RunningJob, counts: list[int], loads_s: float) -> list[dict[str, Any]]:
    """When each scale was asked for, and when the command had ended."""
    windows = []
    for count in counts:
        asked_s = time.monotonic()
        said = job.command("scale", str(count), timeout_s=SCALE_S_MAX)
        if said.code:
            raise JobWentWrong(f"`hailer scale {count}` said\n{said.text}")
        windows.append({"to": count, "asked_s": asked_s, "ended_s": time.monotonic(), "said": said.last})
        time.sleep(AFTER_S + loads_s)
        windows[-1]["measured_s"] = time.monotonic()
    return windows


def untouched(seconds: float) -> list[dict[str, Any]]:
    """As if a command had taken so long."""
    asked_s = time.monotonic()
    time.sleep(seconds)
    ended_s = time.monotonic()
    return [{"to": None, "asked_s": asked_s, "ended_s": ended_s, "measured_s": ended_s, "said": ""}]


def what_was_felt(window: dict[str, Any], felt: dict[str, Any], tallies: list[Any]) -> dict[str, Any]:
    """What happened from when something was asked for to when it was done."""
    asked_s, ended_s = window["asked_s"], window["ended_s"]
    joined = [at_s for at_s, _ in felt["joined"] if asked_s <= at_s <= ended_s]
    # What the last bin did to the outputs may be seen a moment later than the command sees it.
    changed = [at_s for at_s, _ in felt["shares"] if asked_s <= at_s <= ended_s + AFTER_S]
    ready_s = max(joined, default=asked_s)
    last_bin_s = max(changed, default=ready_s)
    return {
        "first_joined_s": min(joined, default=asked_s) - asked_s,
        "ready_s": ready_s - asked_s,
        "fill_s": last_bin_s - ready_s,
        "command_s": ended_s - asked_s,
        "starting_gap_ms": 1000 * longest_gap(felt["completions"], asked_s, ready_s),
        "gap_ms": 1000 * longest_gap(felt["completions"], asked_s, max(ended_s, last_bin_s)),
        "words_per_s": sum(records for _, at_s, records, _ in tallies if asked_s <= at_s <= ended_s)
        / (ended_s - asked_s),
    }


def loads(window: dict[str, Any], tallies: list[Any]) -> dict[int, int]:
    """How many records each worker counted once all was quiet again."""
    found: Counter[int] = Counter()
    for worker, at_s, records, _ in tallies:
        if window["ended_s"] + AFTER_S <= at_s < window["measured_s"]:
            found[worker] += records
    return dict(found)


def longest_gap(completions: list[float], since_s: float, until_s: float) -> float:
    """The longest between two completions of epochs that is, at least in part, between two moments."""
    return max(
        (later - earlier for earlier, later in pairwise(completions) if later > since_s and earlier < until_s),
        default=0.0,
    )


def check(tallies: list[Any], counts: Any) -> None:
    """Every record was counted once, and every count is one more than the last of its key."""
    found = [sum(each[field] for each in tallies) for field in (2, 3)]
    expected = [int(counts.sum()), int((counts * (counts + 1) // 2).sum())]
    if found != expected:
        raise JobWentWrong(f"{found[0]:,} counts, which add up to {found[1]:,}, and should be {expected}")


def zipf(keys: int, exponent: float) -> Any:
    """The shares of keys, the greatest first; with 0 all are the same."""
    shares = np.arange(1, keys + 1, dtype=float) ** -exponent
    return shares / shares.sum()


def _flags() -> Namespace:
    parser = ArgumentParser()
    parser.add_argument("container", choices=("rows", "columns"))
    parser.add_argument("keys", type=int)
    parser.add_argument("counts", type=int, nargs="+", metavar="COUNT")
    parser.add_argument("--wait-us", type=float, default=0.0)
    parser.add_argument("--zipf", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1, help="which keys are drawn")
    parser.add_argument("--loads", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--untouched", type=float, metavar="SECONDS")
    return parser.parse_args()


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(main(_flags()))}\n")
