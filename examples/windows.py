"""Counts taxi rides in windows of event time, while the windows move from worker to worker, and checks every result.

    python examples/windows.py -n 2          # two processes
    python examples/windows.py -n 2 -w 2     # four workers

An epoch brings the rides of a minute, and some of earlier ones. Rides per district are counted in windows of five
minutes, and of ten minutes that start every two; the fares of a driver are added up in sessions, which end when there
was no ride for six minutes. All of it is in the dataflow twice, on bins that move every few minutes and fixed by hash,
and `verify` compares the two epoch by epoch. In the end a plain loop over the rides has the last word.
"""

from __future__ import annotations

import argparse
from collections import Counter
from functools import partial
from operator import add, attrgetter
from random import Random
from typing import Any, NamedTuple

from hailer import (
    ControlInput,
    EpochClock,
    Input,
    Late,
    Pane,
    Probe,
    Stream,
    Window,
    WindowResult,
    Worker,
    add_flags,
    concatenate,
    counting,
    execute_from_args,
    reducing,
)
from operators.commands import Control

MINUTE_S = 60
BINS = 16
EPOCHS_AHEAD_MAX = 4


class Ride(NamedTuple):
    district: str
    driver: int
    second: int
    fare: int


def main(worker: Worker, minutes: int) -> None:
    rides, control, probe = Input[Ride]("rides"), ControlInput(), Probe()
    with worker.dataflow("windows") as scope:
        stream, commands = rides.stream(scope), control.stream(scope).broadcast()
        moving, fixed = windows(stream, commands), windows(stream, None)
        verified = [moving[kind].verify(fixed[kind]).map(partial(tag, kind)) for kind in moving]
        found = concatenate(scope, verified).exchange(lambda _: 0).probe(probe).extract()

    for minute in range(minutes):
        if worker.index == 0 and minute % 3 == 2:
            control.map([(bin_id + minute) % worker.peers for bin_id in range(BINS)])
        rides.send_batch(rides_of(minute)[worker.index :: worker.peers])
        rides.advance_to(minute + 1)
        control.advance_to(minute + 1)
        worker.step_while(lambda: probe.less_than(rides.time - EPOCHS_AHEAD_MAX))
    rides.close()
    control.close()
    worker.complete()
    if worker.index == 0:
        check(found.rows(), minutes, worker.peers)


def windows(rides: Stream[Ride], control: Stream[Control] | None) -> dict[str, Stream[Any]]:
    """The results of each kind of window, and what came too late for it."""
    options: dict[str, Any] = {
        "event_time": attrgetter("second"),
        "clock": EpochClock(MINUTE_S),
        "lateness": 2 * MINUTE_S,
        "control": control,
        "bins": BINS,
    }
    district, driver, fares = attrgetter("district"), attrgetter("driver"), reducing(add, of=attrgetter("fare"))
    tumbling = rides.tumbling_window(counting(), length=5 * MINUTE_S, key=district, early="epoch", **options)
    sliding = rides.sliding_window(counting(), length=10 * MINUTE_S, step=2 * MINUTE_S, key=district, **options)
    sessions = rides.session_window(fares, gap=6 * MINUTE_S, key=driver, **options)
    named: dict[str, tuple[Stream[Any], Stream[Any]]] = {"tumbling": tumbling, "sliding": sliding, "sessions": sessions}
    return {kind: results.concat(late) for kind, (results, late) in named.items()}


def tag(kind: str, item: Any) -> tuple[str, Any]:
    return kind, item


def rides_of(minute: int) -> list[Ride]:
    """The rides that arrive in a minute: most of them are new, some are late, and few are too late."""
    random = Random(minute)
    delays_s = (0, 0, 0, 0, 0, 0, 30, 90, 200, 900)
    return [
        Ride(
            district=random.choice(("harbour", "old town", "station", "university")),
            driver=random.randrange(30),
            second=minute * MINUTE_S + random.randrange(MINUTE_S) - random.choice(delays_s),
            fare=random.randrange(5, 50),
        )
        for _ in range(20)
    ]


def check(found: list[tuple[str, Any]], minutes: int, workers: int) -> None:
    """Print what was found, and raise if a plain loop over the same rides finds something else."""
    results: dict[str, list[WindowResult[Any, int]]] = {"tumbling": [], "sliding": [], "sessions": []}
    late: dict[str, list[Late[Ride]]] = {"tumbling": [], "sliding": [], "sessions": []}
    for kind, item in found:
        (late if isinstance(item, Late) else results)[kind].append(item)
    rides = [ride for minute in range(minutes) for ride in rides_of(minute)]
    differences = sum(
        len(last_word(results[kind]).items() ^ counted(rides, late[kind], length_s, step_s).items())
        for kind, length_s, step_s in (
            ("tumbling", 5 * MINUTE_S, 5 * MINUTE_S),
            ("sliding", 10 * MINUTE_S, 2 * MINUTE_S),
        )
    )
    in_time = sum(ride.fare for ride in rides) - sum(missed.record.fare for missed in late["sessions"])
    differences += sum(last_word(results["sessions"]).values()) != in_time

    print(f"rides            {len(rides):>8,}")
    print(f"workers          {workers:>8,}")
    for kind, some in results.items():
        panes = Counter(result.pane for result in some)
        print(
            f"{kind:<16} {len(last_word(some)):>8,}   ({panes[Pane.EARLY]:,} results were early, "
            f"{panes[Pane.CORRECTED]:,} corrected; {len(late[kind]):,} rides were too late)"
        )
    print(f"differences      {differences:>8,}   (against a plain loop)", flush=True)
    if differences:
        raise WindowsDiffer(f"{differences} windows differ from those of a plain loop over the rides")


def last_word(results: list[WindowResult[Any, int]]) -> dict[tuple[Any, Window], int]:
    """What is known in the end: a result replaces those of its key whose windows lie within its own."""
    known: dict[tuple[Any, Window], int] = {}
    for key, window, value, _ in results:
        for other_key, other in list(known):
            if other_key == key and window.start <= other.start and other.end <= window.end:
                del known[other_key, other]
        known[key, window] = value
    return known


def counted(rides: list[Ride], late: list[Late[Ride]], length_s: int, step_s: int) -> dict[tuple[Any, Window], int]:
    """How many rides each window of each district has, without those that came too late for it."""
    counts = Counter(
        (ride.district, Window(start, start + length_s))
        for ride in rides
        for start in range(ride.second - ride.second % step_s, ride.second - length_s, -step_s)
    )
    counts.subtract((missed.record.district, window) for missed in late for window in missed.windows)
    return dict(+counts)


class WindowsDiffer(Exception):
    """The dataflow and the plain loop disagree."""


def read_arguments() -> int:
    parser = argparse.ArgumentParser(description="Count rides in windows that move between workers, and check them.")
    parser.add_argument("--minutes", type=int, default=60, metavar="N", help="how many minutes of rides (60)")
    add_flags(parser)
    flags = parser.parse_args()
    if flags.minutes < 1:
        parser.error("--minutes is at least 1")
    minutes: int = flags.minutes
    return minutes


if __name__ == "__main__":
    execute_from_args(partial(main, minutes=read_arguments()))
