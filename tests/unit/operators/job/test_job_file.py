"""Finding the job in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from operators.errors import JobFileError
from operators.job.job_file import load_job

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
