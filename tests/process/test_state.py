"""States of a job file's own classes move; a command for what cannot is refused, and its job goes on."""

from __future__ import annotations

import re
from pathlib import Path

from tests.process.jobs import HAILER, check_the_end, counting, hailer, say, status, wait_for_status, wait_until
from tests.processes import end, start

CLASSES = """
import threading
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from operators import Job

class Parity(Enum):
    EVEN = 0
    ODD = 1

class Word(NamedTuple):
    text: str
    parity: Parity

@dataclass
class Count:
    total: int = 0
    seen: set[Word] = field(default_factory=set)
    hidden: Any = None

def parse(line):
    return [(Word(text, Parity(len(text) % 2)), 1) for text in line.split()]

def count(word, n, state):
    state.total += n
    state.seen.add(word)
    state.hidden = threading.Lock() if Path("hide").exists() else None
    if Path("fail").exists():
        raise ValueError("it shall")
    assert state.seen == {word} and isinstance(word, Word)
    return state, [(word.text, state.total)]

job = Job("counts")

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(parse)
    flow.output("counts", words.stateful_state_machine(count, initial=Count, bins=16, name="count"))
"""


def wait_for_all_words(folder: Path) -> None:
    """Each word of the feed has come again."""
    epoch = status(folder)["frontier"][0]
    wait_for_status(folder, lambda answer: answer["frontier"][0] > epoch + 60)


def test_states_of_the_files_own_classes_move_and_what_cannot_be_encoded_stays(tmp_path: Path):
    with counting(tmp_path, "-n1", source=CLASSES) as (process, feed):
        (tmp_path / "hide").touch()
        wait_for_all_words(tmp_path)
        refused = say(tmp_path, "scale", "2")
        assert refused.code == 1
        assert re.fullmatch(
            r"failed: bin \d+ of operator 'count' cannot leave worker 0: the state of key Word\(text='w.*\), "
            r"a Count, cannot be encoded: a lock; make it of .*; no bin was moved, and the job goes on",
            refused.out.splitlines()[0],
        )
        (tmp_path / "hide").unlink()
        wait_for_all_words(tmp_path)
        assert say(tmp_path, "scale", "2").code == 0
        assert [worker["state"] for worker in status(tmp_path)["workers"]] == ["member"] * 2
        (tmp_path / "hide").touch()
        wait_for_all_words(tmp_path)
        everything = [str(bin_id) for bin_id in range(16)]
        for command in (["move", *everything, "--to", "0"], ["scale", "1"], ["leave", "1"]):
            refused = say(tmp_path, *command)
            assert refused.code == 1
            assert "no bin was moved, and the job goes on" in refused.out + refused.err
        (tmp_path / "hide").unlink()
        wait_for_all_words(tmp_path)
        assert say(tmp_path, "scale", "1").code == 0
        check_the_end(tmp_path, process, feed)


def test_a_command_under_which_its_job_ends_tells_what_the_job_reported(tmp_path: Path):
    with counting(tmp_path, "-n1", source=CLASSES) as (process, _):
        moving = start((HAILER, "scale", "2"), tmp_path, tmp_path)
        wait_until(lambda: len(status(tmp_path)["workers"]) == 2)
        (tmp_path / "fail").touch()
        report = end(process).err
        assert report.startswith("job failed: operator 'count'")
        told = end(moving)
        assert (told.code, told.err) == (
            1,
            f"hailer scale: job 'counts' has ended meanwhile, and reported:\n{report}",
        )
        assert hailer(tmp_path, "status").err.startswith("hailer status: no job runs in")


def test_a_command_under_which_its_job_ends_well_says_so(tmp_path: Path):
    with counting(tmp_path, "-n1") as (process, feed):
        (tmp_path / "late").touch()
        scaling = start((HAILER, "scale", "2"), tmp_path, tmp_path)
        wait_until(lambda: len(status(tmp_path)["workers"]) == 2)
        check_the_end(tmp_path, process, feed)
        told = end(scaling)
        assert told.code == 1
        assert (
            told.err == "hailer scale: job 'counts' has ended meanwhile: it went through all of its input, and well\n"
        )
