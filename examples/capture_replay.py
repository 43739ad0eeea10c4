"""Keeps a stream in files, and replays it on another number of workers with the same result.

    python examples/capture_replay.py capture readings -n 3    # writes readings/0-of-3.capture and two more
    python examples/capture_replay.py replay readings -w 2     # reads them, and prints the same lines

What is captured is the stream itself: every record with its time, and how far the stream had come. The replay therefore
knows when an epoch is complete, although it knows nothing of the program that sent it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from random import Random

from hailer import EventReader, EventWriter, Stream, Worker, add_flags, execute_from_args, iterator_source, replay

Reading = tuple[str, int]
"""A sensor and what it measured."""

SENSORS = ("attic", "cellar", "kitchen")
EPOCHS, READINGS = 4, 60


def highest(readings: Stream[Reading]) -> Stream[tuple[str, int]]:
    """Each sensor's highest reading in each epoch."""
    return readings.aggregate(lambda sensor, value, best: max(value, best), initial=0)


def main(worker: Worker, mode: str, directory: Path) -> None:
    with worker.dataflow(mode) as scope:
        if mode == "capture":
            readings = iterator_source(scope, measure(worker.index, worker.peers))
            readings.capture(EventWriter(directory / f"{worker.index}-of-{worker.peers}.capture"))
        else:
            files = captures(directory)[worker.index :: worker.peers]
            readings = replay(scope, [EventReader(file) for file in files])
        result = highest(readings).exchange(lambda _: 0, name="gather").extract()
    worker.complete()
    for epoch, rows in result.by_time().items():
        print(f"epoch {epoch}: {', '.join(f'{sensor} {value}' for sensor, value in sorted(rows))}", flush=True)


def measure(index: int, peers: int) -> list[tuple[int, list[Reading]]]:
    """This worker's share of each epoch's readings, which are the same on however many workers."""
    random = Random(1)
    epochs = [[(random.choice(SENSORS), random.randrange(1000)) for _ in range(READINGS)] for _ in range(EPOCHS)]
    return [(epoch, readings[index::peers]) for epoch, readings in enumerate(epochs)]


def captures(directory: Path) -> list[Path]:
    """The files of one capture, all of them."""
    files = sorted(directory.glob("*-of-*.capture"))
    sets = {file.stem.rpartition("-of-")[2] for file in files}
    if len(sets) != 1 or len(files) != int(min(sets)):
        raise FileNotFoundError(
            f"{directory} does not hold the files of one capture, but {[file.name for file in files]}"
        )
    return files


def read_arguments() -> tuple[str, Path]:
    parser = argparse.ArgumentParser(description="Keep a stream in files, and replay it on other workers.")
    parser.add_argument("mode", choices=["capture", "replay"])
    parser.add_argument("directory", type=Path, help="where the files are")
    add_flags(parser)
    flags = parser.parse_args()
    if flags.mode == "capture":
        flags.directory.mkdir(parents=True, exist_ok=True)
    else:
        try:
            captures(flags.directory)
        except FileNotFoundError as error:
            parser.error(str(error))
    return flags.mode, flags.directory


if __name__ == "__main__":
    mode, directory = read_arguments()
    execute_from_args(partial(main, mode=mode, directory=directory))
