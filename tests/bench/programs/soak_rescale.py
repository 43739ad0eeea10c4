"""Random scale, move, rebalance, cancel, pause and leave commands on a running WordCount: is every count right?

Not part of the suite. An hour of short jobs, each with a seed of its own; one long job; and one run again:

    .venv/bin/python -m tests.bench.programs.soak_rescale --seconds 3600 --seed 1
    .venv/bin/python -m tests.bench.programs.soak_rescale --seconds 3600 --seed 1 --run-seconds 3600
    .venv/bin/python -m tests.bench.programs.soak_rescale --seed 17

Up to three commands are under way at once. A run fails if a word's counts are not 1 to n, each once; if the job does
not end well with its input, leaves a process, or a command does not end or shows a mistake of ours. A command may be
refused: the reasons are counted. A run that has failed leaves its folder, with what was commanded when in
`commands.txt`. The seed decides what is commanded, but not what the processes make of it: the same seed may have to run
more than once to show it again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from argparse import ArgumentParser
from array import array
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import numpy as np

from tests.bench.programs.running_job import JobWentWrong, RunningJob, Speech, running_job
from tests.bench.programs.word_feed import WordFeed, vocabulary

JOB = Path(__file__).with_name("soak_job.py")
DRAWN = 100_000
PROCESSES_MAX, UNDER_WAY_MAX, PAUSE_S_MAX, IDLE_S = 4, 3, 1.0, 0.4
PACES = ((10, 0.002), (10, 0.0005), (1000, 0.005))
"""How many words are written at once, and the pause after that."""
STRATEGIES = ("optimized", "fluid", "batched", "all-at-once")
KINDS = {"scale": 5, "move": 3, "rebalance": 3, "cancel": 4, "leave": 2, "pause": 2}
"""How often each is drawn."""


@dataclass(slots=True)
class Findings:
    """What all runs came to."""

    runs: int = 0
    words: int = 0
    begun: Counter[str] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print it."""
        print(f"{self.runs} runs, {self.words:,} words, {sum(self.begun.values())} commands")
        for kind, begun in sorted(self.begun.items()):
            print(f"  {kind}: {begun}, done {self.done[kind]}")
        print(f"{sum(self.refused.values())} refused or ended early")
        for reason, times in self.refused.most_common():
            print(f"  {times} x {reason}")
        print(f"{len(self.failures)} failures", *self.failures, sep="\n", flush=True)


@dataclass(frozen=True, slots=True)
class Setting:
    """What kind of job a run has."""

    columns: bool
    bins: int
    keys: int
    processes: int
    threads: int
    epoch_lines: int
    chunk_words: int
    pause_s: float

    @staticmethod
    def drawn(dice: Random) -> Setting:
        """One of them."""
        chunk_words, pause_s = dice.choice(PACES)
        return Setting(
            columns=dice.random() < 0.5,
            bins=2 ** dice.randint(2, 8),
            keys=dice.choice((20, 2_000, 20_000)),
            processes=dice.randint(1, 3),
            threads=dice.choice((1, 1, 2)),
            epoch_lines=dice.choice((5, 50)),
            chunk_words=chunk_words,
            pause_s=pause_s,
        )


class Run:
    """One job, from its beginning to its end."""

    def __init__(self, seed: int, folder: Path, findings: Findings) -> None:
        self._dice = Random(seed)
        self.setting = Setting.drawn(self._dice)
        self._folder = folder
        self._findings = findings
        self._under_way: list[Speech] = []
        self._began_s = time.monotonic()

    def run(self, seconds: float) -> None:
        """Run it for so long, and check what came out."""
        setting = self.setting
        words = vocabulary(setting.keys)
        drawn = np.random.default_rng(self._dice.randrange(2**32)).integers(0, setting.keys, DRAWN)
        feed = WordFeed(self._folder / "lines", words, drawn, chunk_words=setting.chunk_words, pause_s=setting.pause_s)
        flags = (f"-n{setting.processes}", f"-w{setting.threads}", "--epoch-lines", str(setting.epoch_lines))
        ends = ("--input", "lines=lines", "--output", "counts=counts")
        environment = {"SOAK_JOB": json.dumps({"columns": setting.columns, "bins": setting.bins})}
        with feed.writing(), running_job(self._folder, JOB, *flags, *ends, environment=environment) as job:
            job.wait_for_keys(1)
            self._command(job, time.monotonic() + seconds)
            if self._dice.random() < 0.5:  # otherwise the input ends in the middle of what is under way
                self._hear(wait=True)
            feed.close()
            job.end()
            self._hear(wait=True)
        check(job, words, feed.counts())
        self._findings.words += int(feed.counts().sum())

    def _command(self, job: RunningJob, until_s: float) -> None:
        status: dict[str, Any] | None = None
        while time.monotonic() < until_s and not job.ended:
            self._hear(wait=False)
            if status is None or self._dice.random() < 0.5:
                status = job.status() or status
            if status is not None and len(self._under_way) < UNDER_WAY_MAX:
                [kind] = self._dice.choices(list(KINDS), list(KINDS.values()))
                self._findings.begun[kind] += 1
                if kind == "pause":
                    self._pause(self._dice.choice(status["workers"])["pid"])
                else:
                    arguments = self._arguments(kind, [worker["worker"] for worker in status["workers"]])
                    self._note(f"hailer {' '.join(arguments)}")
                    self._under_way.append(job.begin(*arguments))
            time.sleep(min(3.0, self._dice.expovariate(1 / IDLE_S)))

    def _arguments(self, kind: str, workers: list[int]) -> list[str]:
        """A command that may be refused: some of these workers have left, and others do not exist yet."""
        dice, worker = self._dice, str(self._dice.choice([*workers, max(workers) + 1]))
        how = ["--strategy", dice.choice(STRATEGIES)] if dice.random() < 0.5 else []
        how += ["--gap", "0.3"] if dice.random() < 0.5 else []  # so that there is something to cancel
        match kind:
            case "scale":
                return ["scale", str(dice.randint(1, PROCESSES_MAX))]
            case "move":
                some = dice.sample(range(self.setting.bins), dice.randint(1, self.setting.bins))
                return ["move", *map(str, some), "--to", worker, *how]
            case "rebalance":
                return ["rebalance", *how]
            case "leave":
                return ["leave", worker]
        return [kind]

    def _pause(self, pid: int) -> None:
        """Have a process stand still for a moment."""
        pause_s = self._dice.uniform(0, PAUSE_S_MAX)
        self._note(f"process {pid} stands still for {pause_s:.2f} s")
        with suppress(ProcessLookupError):  # it has just left
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(pause_s)
            finally:
                os.kill(pid, signal.SIGCONT)
            self._findings.done["pause"] += 1

    def _hear(self, *, wait: bool) -> None:
        """Take what commands that have ended said; with `wait`, of all."""
        for speech in list(self._under_way):
            if wait or speech.ended:
                self._under_way.remove(speech)
                said = speech.end()
                self._note(f"hailer {' '.join(speech.arguments)} ended with {said.code}: {said.last}")
                if said.code == 0:
                    self._findings.done[speech.arguments[0]] += 1
                else:
                    self._findings.refused[f"{speech.arguments[0]}: {reason(said.last)}"] += 1

    def _note(self, text: str) -> None:
        with (self._folder / "commands.txt").open("a", encoding="utf-8") as file:
            file.write(f"{time.monotonic() - self._began_s:8.3f} {text}\n")


def reason(line: str) -> str:
    """What a command said, whatever the numbers are.

    >>> reason("hailer move: there is no worker 7; there are 0, 1")
    'there is no worker N; there are N'
    >>> reason("hailer scale: a scale to 3 is under way (process 2 is starting); wait for its end")
    'a scale to N is under way; wait for its end'
    """
    said = re.sub(r"^hailer \w+: | \(.*\)", "", line)
    return re.sub(r"\d+([.,]\d+)*( (bytes|[KMG]iB|ms|s|min)\b)?((, | and )\d+)*", "N", said)


def check(job: RunningJob, words: list[str], counts: Any) -> None:
    """Every word was counted from 1 to how often it was written."""
    found: dict[str, array[int]] = defaultdict(lambda: array("q"))
    for word, total in job.rows("counts"):
        found[word].append(total)
    for word, written in zip(words, counts.tolist(), strict=True):
        totals = found.pop(word, array("q"))
        if not np.array_equal(np.sort(totals), np.arange(1, written + 1)):
            missing, doubled = set(range(1, written + 1)) - {*totals}, Counter(totals) - Counter(range(1, written + 1))
            raise JobWentWrong(
                f"{word!r} was written {written} times; {len(missing)} counts are missing, {sorted(missing)[:10]} …, "
                f"and {doubled.total()} are too many, {sorted(doubled)[:10]} …"
            )
    if found:
        raise JobWentWrong(f"words were counted that nobody wrote: {list(found)[:10]}")


def main() -> int:
    """Run one job after the other until the time is over."""
    parser = ArgumentParser(description="Random commands on a running WordCount.")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next has the next")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to begin runs; 0 for one of them")
    parser.add_argument("--run-seconds", type=float, default=20.0, help="how long each is commanded")
    flags = parser.parse_args()
    findings, seed, until_s = Findings(), flags.seed, time.monotonic() + flags.seconds
    try:
        while findings.runs == 0 or time.monotonic() < until_s:
            soak(seed, flags.run_seconds, findings)
            seed += 1
    except KeyboardInterrupt:
        pass
    finally:
        findings.show()
    return 1 if findings.failures else 0


def soak(seed: int, run_s: float, findings: Findings) -> None:
    """One run; its folder stays if it fails."""
    folder = Path(mkdtemp(prefix=f"soak-{seed}-")).resolve()
    run, began_s = Run(seed, folder, findings), time.monotonic()
    try:
        run.run(run_s)
    except JobWentWrong as wrong:
        findings.failures.append(f"--seed {seed} --run-seconds {run_s:g}, {run.setting}, in {folder}: {wrong}")
        how = "FAILED"
    else:
        shutil.rmtree(folder)
        how = "well"
    findings.runs += 1
    print(
        f"seed {seed} ended {how} after {time.monotonic() - began_s:.0f} s: {run.setting}", file=sys.stderr, flush=True
    )


if __name__ == "__main__":
    sys.exit(main())
