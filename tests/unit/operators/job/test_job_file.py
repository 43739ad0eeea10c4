"""Finding the job in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.membership.members import WorkerId
from operators.errors import JobFileError
from operators.job.job_file import load_job
from routing.bins import BinId
from routing.commands import Move

JOB = "from operators import Job\n{name} = Job('{name}')\n"


def test_the_job_of_a_file_is_found(tmp_path: Path):
    path = tmp_path / "job.py"
    path.write_text(JOB.format(name="orders") + "alias = orders\n")
    assert load_job(path).name == "orders"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("", "defines no job"),
        ("from operators import Job\n", "defines no job"),
        (JOB.format(name="one") + JOB.format(name="two"), r"defines 2 jobs \('one', 'two'\)"),
    ],
)
def test_a_file_without_one_job(tmp_path: Path, source: str, complaint: str):
    path = tmp_path / "job.py"
    path.write_text(source)
    with pytest.raises(JobFileError, match=complaint):
        load_job(path)


def test_a_file_that_is_not_there_gets_the_closest_one(tmp_path: Path):
    (tmp_path / "wordcount.py").write_text("")
    with pytest.raises(JobFileError, match=r"there is no file .*wordcuont\.py; did you mean .*wordcount\.py"):
        load_job(tmp_path / "wordcuont.py")


CLASSES = """
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from operators import Job

class Kind(Enum):
    EVEN = 0
    ODD = 1

class Seen(NamedTuple):
    kind: Kind
    count: int

@dataclass
class State:
    seen: list[Seen] = field(default_factory=list)
    lines: int = field(init=False, default=0)

def count(kind, line, state):
    assert isinstance(state, State)
    state.lines += 1
    state.seen.append(Seen(kind, state.lines))
    return state, [(kind.name, len(state.seen), state.seen[0] == Seen(kind, 1))]

job = Job("classes")

@job.dataflow
def classes(flow):
    kinds = flow.input("numbers").map(lambda number: (Kind(number % 2), number))
    flow.output("counts", kinds.stateful_state_machine(count, initial=State, bins=1))
"""


def test_bins_move_with_states_of_classes_that_a_file_defines(tmp_path: Path):
    """Twice: two files of one name do not take each other's classes for their own."""
    path = tmp_path / "classes.py"
    path.write_text(CLASSES)
    jobs = [load_job(path), load_job(path)]
    moves = {epoch: [Move(BinId(0), WorkerId(epoch % 2))] for epoch in range(1, 6)}
    expected = [(epoch, (kind, epoch + 1, True)) for epoch in range(6) for kind in ("EVEN", "ODD")]
    for job in jobs:
        outputs = job.run({"numbers": {epoch: [0, 1] for epoch in range(6)}}, threads=2, commands=moves)
        assert sorted(outputs["counts"]) == expected


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(:\n    pass\n", "SyntaxError: invalid syntax\n  {job}:1: def f(:"),
        ("\nimport nowhere\n", "ModuleNotFoundError: No module named 'nowhere'\n  {job}:2: import nowhere"),
        (
            "import re\nre.compile(1)\n",
            "TypeError: first argument must be string or compiled pattern\n  {job}:2: re.compile(1)",
        ),
        ("import unfinished\n", "SyntaxError: '(' was never closed\n  {job}:1: import unfinished\n  {other}:1: x = ("),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_with_the_lines_of_its_author(tmp_path: Path, source: str, reason: str):
    path, other = tmp_path / "job.py", tmp_path / "unfinished.py"
    path.write_text(source)
    other.write_text("x = (\n")
    with pytest.raises(JobFileError) as raised:
        load_job(path)
    assert str(raised.value) == f"{path} cannot be loaded: {reason.format(job=path, other=other)}"
