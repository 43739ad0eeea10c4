"""`hailer run` and `job.main`: files in, files out, in real processes."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.process.jobs import HAILER, hailer, written
from tests.processes import run, start

JOB = """
from hailer import Job

job = Job("wordcount")

def count(word, n, total):
    return total + n, [(word, total + n)]

@job.dataflow
def wordcount(flow):
    words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
    flow.output("counts", words.state_machine(count, initial=0))

if __name__ == "__main__":
    job.main()
"""

TEXT = "\n".join(" ".join(f"w{(line * word) % 17}" for word in range(1, 9)) for line in range(200)) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "book.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("shape", [[], ["-w2"], ["-n3"]])
@pytest.mark.parametrize("command", [[HAILER, "run", "job.py"], [sys.executable, "job.py"]])
def test_words_of_a_file_are_counted(folder: Path, command: list[str], shape: list[str]):
    flags = ("--input", "lines=book.txt", "--output", "counts=out", "--epoch-lines", "7")
    ended = run(*command, *shape, *flags, state=folder, cwd=folder)
    assert (ended.code, ended.complaints) == (0, [])
    assert ("wordcount ended after" in ended.err) == (command[0] == HAILER)
    rows = written(folder / "out")
    final: dict[str, int] = {}
    for _, (word, total) in rows:
        final[word] = max(total, final.get(word, 0))
    assert final == Counter(TEXT.split())
    assert sorted(total for _, (_, total) in rows) == sorted(n for c in final.values() for n in range(1, c + 1))


@pytest.mark.parametrize("command", [[HAILER, "run", "job.py"], [sys.executable, "job.py"]])
def test_folders_with_the_names_of_our_packages_do_not_disturb(folder: Path, command: list[str]):
    for name in ("framework", "operators", "routing"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise AssertionError(__file__)\n")
    (folder / "book.txt").write_text("a\n")
    ended = run(*command, "-n2", "--input", "lines=book.txt", state=folder, cwd=folder)
    assert ended.lines == ['counts\t0\t["a", 1]']


def test_a_job_that_imports_what_our_package_hides_is_told_so(folder: Path):
    (folder / "operators").mkdir()
    (folder / "operators" / "mine.py").touch()
    (folder / "job.py").write_text(f"{JOB}\nimport operators.mine\n")
    ended = hailer(folder, "run", "job.py", "--input", "lines=book.txt")
    assert ended.err.splitlines()[0] == (
        "hailer run: job.py cannot be loaded: "
        f"ImportError: Hailer's package 'operators', which has no 'mine', hides yours, {folder / 'operators'}; "
        "rename yours, or put it into a package of your own"
    )


def test_outputs_without_a_destination_are_printed(folder: Path):
    (folder / "book.txt").write_text("a b\na\n")
    ended = hailer(folder, "run", "job.py", "--input", "lines=book.txt", "--epoch-lines", "1")
    assert (ended.code, ended.out) == (0, 'counts\t0\t["a", 1]\ncounts\t0\t["b", 1]\ncounts\t1\t["a", 2]\n')
    assert re.fullmatch(r"hailer: wordcount ended after .*: 2 epochs, 2 records.*\n", ended.err)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "jub.py"], "there is no file jub.py; did you mean job.py?"),
        (["run", "job.py", "--input", "lines"], "write NAME=PATH, such as --input lines=book.txt"),
        (["run", "job.py", "--input", "lines=none.txt"], "there is no file none.txt"),
        (["run", "job.py", "--input", "lines=bok.txt"], "there is no file bok.txt; did you mean 'book.txt'?"),
        (["run", "job.py", "--input", "line=book.txt"], "this job has no input 'line'; it has 'lines'; did you mean"),
        (["run", "job.py", "--output", "count=out"], "this job has no output 'count'; it has 'counts'; did you mean"),
        (["run", "job.py", "-n2", "--input", "line=book.txt"], "this job has no input 'line'"),
        (["run", "job.py", "-p7"], "-p 7: there is 1 process"),
        (["run", "job.py", "--epoch-lines", "0"], "an epoch has at least one line"),
        (["run", "job.py"], "nothing feeds this job; give --input lines=FILE"),
        (["run", "job.py", "--output", "counts=book.txt"], "book.txt is a file; name a directory"),
        (["walk"], "invalid choice: 'walk'"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_arguments(folder: Path, arguments: list[str], complaint: str):
    ended = hailer(folder, *arguments)
    assert ended.code in (1, 2)
    assert complaint in ended.err
    assert "Traceback" not in ended.err


def test_an_input_that_is_not_given_is_asked_for(folder: Path):
    two = JOB.replace('flow.input("lines")', 'flow.input("lines").concat(flow.input("more"))')
    (folder / "job.py").write_text(two)
    ended = hailer(folder, "run", "job.py", "-n2", "--input", "lines=book.txt")
    assert (ended.code, ended.out) == (2, "")
    assert ended.said == [
        "job failed: on worker 0: nothing feeds input 'more'; give --input more=FILE, "
        "or --input more=/dev/null for an empty one"
    ]
    ended = hailer(folder, "run", "job.py", "--input", "lines=book.txt", "--input", "more=/dev/null")
    assert (ended.code, len(ended.out.splitlines())) == (0, len(TEXT.split()))


def test_a_file_that_does_not_run_its_job_says_so_if_it_is_given_the_flags_of_one(folder: Path):
    (folder / "job.py").write_text(JOB.replace("job.main()", "pass"))
    ended = run(sys.executable, "job.py", "--input", "lines=book.txt", state=folder, cwd=folder)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == (
        "job.py: job 'wordcount' was not run; run it with `hailer run job.py …`, or let job.py end with `job.main()`\n"
    )
    ended = run(sys.executable, "job.py", "--mine", state=folder, cwd=folder)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_a_reader_that_goes_away_ends_the_job_without_a_traceback(folder: Path):
    (folder / "book.txt").write_text("to be or not to be\n" * 20_000)
    command = (HAILER, "run", "job.py", "--input", "lines=book.txt")
    with start(command, folder, folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("counts\t0\t")
        process.stdout.close()
        said = process.stderr.read()
    assert said == "job stopped: the reader of the output has gone\n"
    assert process.returncode == 1


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["run", "job.py", "--help"]])
def test_help_has_an_example(folder: Path, arguments: list[str]):
    ended = hailer(folder, *arguments)
    assert ended.code == 0
    assert "example: hailer run" in ended.out
