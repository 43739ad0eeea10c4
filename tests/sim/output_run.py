"""One seed of a cluster that writes an output to files while workers join and leave.

As in `rescale_run`, every worker feeds and workers come and go; here the first one stays, and cuts the epochs whenever
the dice say so. Whenever `complete.json` is replaced, the files that it names hold the records up to its epoch, each
once, and no others; and so do all files in the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from framework.progress.order import Time
from framework.simulation.invariants import Invariants
from framework.worker.worker import Worker
from operators import Input
from operators.job.json_lines import JsonLines
from operators.job.output_directory import OutputDirectory
from operators.job.part_writer import FileOutput
from tests.sim.rescale_run import Outcome, Run

Numbers = Counter[tuple[Time, tuple[int, int]]]


class OutputRun(Run):
    """A cluster, and the directory that it writes to."""

    tests = "tests/sim/test_outputs.py"

    def __init__(self, seed: int, trace_moves: int, path: Path) -> None:
        super().__init__(seed, trace_moves, second=False)
        self.loops = False
        self.path = path
        self.checked = 0
        """How many versions of `complete.json` there were."""
        self._complete: int | None = None
        self._outputs: dict[int, FileOutput] = {}
        self._cuts: dict[int, Input[int]] = {}
        self.cluster.after_move.append(self._check)

    def _build(self, worker: Worker, name: str, *, loops: bool) -> Input[tuple[int, int]]:
        numbers, cuts = Input[tuple[int, int]](name), Input[int]("cuts")
        directory = OutputDirectory(name, self.path, "simulated")
        if worker.id == 0:
            directory.claim()
        self._outputs[worker.id] = output = FileOutput(directory, JsonLines(name))
        self._cuts[worker.id] = cuts
        with worker.dataflow() as scope:
            rows = numbers.stream(scope).exchange(lambda row: row[0])
            output.write(rows, cuts.stream(scope).broadcast(), worker)
        return numbers

    def _feed(
        self,
        worker: Worker,
        numbers: Input[tuple[int, int]],
        notes: Input[str],
        others: list[Input[tuple[int, int]]],
        dice: Random,
    ) -> Iterator[None]:
        cuts = self._cuts[worker.id]
        if worker.id:
            cuts.close()
        for _ in super()._feed(worker, numbers, notes, others, dice):
            if not cuts.closed and not numbers.closed and dice.random() < 0.5:
                following = max(cuts.time, numbers.time + dice.choice((0, 0, 1)))
                if following > cuts.time and dice.random() < 0.5:
                    cuts.advance_to(following)
                    cuts.send(following)
                    cuts.flush()
                cuts.advance_to(following)
            yield

    def _should_leave(self, worker: Worker, dice: Random) -> bool:
        return worker.id != 0 and super()._should_leave(worker, dice)

    def _check(self, _: int) -> None:
        complete = self._outputs[0].completion.complete if 0 in self._outputs else None
        if complete == self._complete:
            return
        said = json.loads((self.path / "_hailer" / "complete.json").read_text())
        assert (said["complete"], said["ended"]) == (complete, False)
        expected = Counter({(time, row): n for (time, row), n in self.sent.items() if time <= complete})  # type: ignore[operator]
        assert self.written(said["files"]) == expected, f"what is complete up to {complete}"
        self._complete = complete
        self.checked += 1

    def written(self, files: list[str]) -> Numbers:
        """The records of some files."""
        lines = [json.loads(line) for name in files for line in (self.path / name).read_text().splitlines()]
        return Counter((line["epoch"], (line["record"][0], line["record"][1])) for line in lines)

    def check_the_end(self) -> None:
        """All is there, and nothing else."""
        self._outputs[0].end()
        files = sorted(path.name for path in self.path.glob("*.jsonl"))
        said = json.loads((self.path / "_hailer" / "complete.json").read_text())
        assert (sorted(said["files"]), said["ended"]) == (files, True)
        assert self.written(files) == self.sent
        assert list(self.path.glob("_hailer/*.unfinished")) == []
        for output in self._outputs.values():
            output.directory.release()


def run_output_seed(seed: int, path: Path, *, trace_moves: int = 0) -> tuple[Outcome, int]:
    """Raise unless the files show whole epochs on the way, and everything in the end."""
    run = OutputRun(seed, trace_moves, path)
    with Invariants(run.cluster) as invariants:
        run.cluster.run(run.program, moves_max=30_000)
        invariants.check_ended()
    run.check_the_end()
    return Outcome(run.cluster.moves, run.joined, run.left, len(run.killed), run.killed_enlisted), run.checked
