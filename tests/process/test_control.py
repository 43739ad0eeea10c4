"""The `hailer` command and a job that runs: found by its directory, watched, steered, explained."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Ended, end

HAILER = str(Path(sys.executable).with_name("hailer"))
WAIT_S = 30.0

COUNTS = """
import time
from operators import Job

job = Job("counts")

def slowly(line):
    time.sleep(0.002)
    return line.split()

@job.dataflow
def counts(flow):
    words = flow.input("lines").flat_map(slowly).map(lambda word: (word, 1))
    count = lambda word, n, total: (total + n, [(word, total + n)])
    flow.output("counts", words.stateful_state_machine(count, initial=0, bins=16, name="count"))
"""

STUCK = """
from operators import Job

job = Job("stuck")

@job.dataflow
def stuck(flow):
    kept = []

    def keep(input, output):
        for capability, rows in input:
            if flow.worker.index == 1 and not kept:
                kept.append(capability.retain())
            output.session(capability).give_container(rows)

    flow.output("lines", flow.input("lines").map(str.strip).unary(keep, name="keep"))
"""

BUSY = """
import time
from pathlib import Path
from operators import Job

job = Job("busy")

def wait(line):
    Path("waiting").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return line

@job.dataflow
def busy(flow):
    flow.output("lines", flow.input("lines").map(wait))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, source in (("counts", COUNTS), ("stuck", STUCK), ("busy", BUSY)):
        (tmp_path / f"{name}.py").write_text(source)
    lines = [" ".join(f"w{(line * word) % 97}" for word in range(1, 6)) for line in range(40_000)]
    (tmp_path / "book.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "HAILER_SECRET_FILE": str(folder / "secret")}


def hailer(folder: Path, *arguments: str) -> Ended:
    return end(
        subprocess.Popen(
            [HAILER, *arguments],
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


def ask(folder: Path, *arguments: str) -> str:
    """What a command prints that has to end well."""
    ended = hailer(folder, *arguments)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


@contextmanager
def running(folder: Path, job: str, *arguments: str, lines: str = "book.txt") -> Iterator[subprocess.Popen[str]]:
    """A job that runs, until the block ends."""
    command = [HAILER, "run", f"{job}.py", "--input", f"lines={lines}", "--output", f"{_output(job)}=out", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: process.poll() is not None or list(folder.glob(".hailer/*/job.json")))
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        end(process)


def _output(job: str) -> str:
    return "counts" if job == "counts" else "lines"


def wait_until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {WAIT_S} s: {condition}"
        time.sleep(0.02)


def status(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(ask(folder, "status", "--json"))
    return answer


def wait_for_status(folder: Path, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Ask until what is asked for is so; a job that has just begun has not much to tell."""
    found: list[dict[str, Any]] = []

    def fits() -> bool:
        ended = hailer(folder, "status", "--json")
        if ended.code == 0:
            found.append(json.loads(ended.out))
        return bool(found) and bool(condition(found[-1]))

    wait_until(fits)
    return found[-1]


def flows(answer: dict[str, Any]) -> bool:
    return bool(answer["frontier"]) and answer["frontier"][0] > 2 and bool(answer["bins"])


def test_status_tells_workers_operators_rates_and_bins(folder: Path):
    with running(folder, "counts", "-n2", "--epoch-lines", "20"):
        answer = wait_for_status(folder, flows)
        assert (answer["job"], [worker["worker"] for worker in answer["workers"]]) == ("counts", [0, 1])
        assert len({worker["pid"] for worker in answer["workers"]}) == 2
        rates = {operator["name"]: operator["records_per_s"] for operator in answer["operators"]}
        assert 100 < rates["flat_map"] < 1500
        assert rates["map"] > 4 * rates["flat_map"]
        [bins] = answer["bins"]
        assert (bins["name"], Counter(bins["owners"])) == ("count", {0: 8, 1: 8})
        assert sum(bins["keys"].values()) == sum(worker["keys"] for worker in answer["workers"]) > 50
        page = ask(folder, "status")
        assert re.search(r"^counts   2 processes, 2 workers   running for .*complete before epoch \d+$", page, re.M)
        assert re.search(r"^count\s+0: 8  1: 8\s+16\s+\d+\s+0$", page, re.M)
    assert list(folder.glob(".hailer/*/")) == []
    assert "no job runs in" in hailer(folder, "status").err


def test_bins_move_by_command_and_no_count_is_wrong(folder: Path):
    lines = (folder / "book.txt").read_text().splitlines()[:10_000]
    (folder / "some.txt").write_text("\n".join(lines) + "\n")
    with running(folder, "counts", "-n2", "--epoch-lines", "5", lines="some.txt") as process:
        wait_for_status(folder, flows)
        said = ask(folder, "move", "0", "2", "--to", "1")
        assert re.fullmatch(r"moved 2 bins, [\d.]+ \w+, in .*, longest stall .*\n", said)
        assert "0 bytes" not in said
        assert Counter(status(folder)["bins"][0]["owners"]) == {0: 6, 1: 10}
        (folder / "owners.json").write_text(json.dumps([1] * 16))
        assert ask(folder, "map", "owners.json", "--strategy", "fluid").startswith("moved 6 bins, ")
        plan = ask(folder, "rebalance", "--dry-run")
        assert plan.startswith("step  bins  bytes  bin: from→to\n")
        assert Counter(status(folder)["bins"][0]["owners"]) == {1: 16}
        assert ask(folder, "rebalance").startswith("moved ")
        moved = status(folder)
        assert moved["plan"]["finished"]
        assert Counter(moved["bins"][0]["owners"])[0] > 2
        ended = end(process)
    assert (ended.code, ended.err) == (0, "")
    rows = [json.loads(line) for path in (folder / "out").iterdir() for line in path.read_text().splitlines()]
    expected = Counter(word for line in lines for word in line.split())
    assert sorted((word, total) for _, (word, total) in rows) == sorted(
        (word, n) for word, count in expected.items() for n in range(1, count + 1)
    )


def test_a_plan_can_be_cancelled_between_steps(folder: Path):
    with running(folder, "counts", "-n2", "--epoch-lines", "5"):
        wait_for_status(folder, flows)
        (folder / "owners.json").write_text(json.dumps([1] * 16))
        moving = subprocess.Popen(
            [HAILER, "map", "owners.json", "--strategy", "fluid", "--gap", "1"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: (plan := status(folder)["plan"]) and plan["steps_done"] >= 1)
        assert "is under way" in hailer(folder, "rebalance", "--strategy", "all-at-once").err
        assert re.search(r"plan 0(:| was cancelled after) \d of 8 steps", ask(folder, "cancel"))
        ended = end(moving)
        assert ended.code == 1
        assert re.fullmatch(r"moved [1-7] bins?, .*; cancelled, [1-7] bins? stayed\n", ended.out)
        assert "no plan is under way" in hailer(folder, "cancel").err


WRONG = [
    (["move", "16", "--to", "1"], "there is no bin 16; the bins are 0 to 15"),
    (["move", "1", "--to", "7"], "there is no worker 7; there are 0, 1"),
    (["move", "1"], "the following arguments are required: --to"),
    (["move", "one", "--to", "1"], "invalid int value: 'one'"),
    (["map", "missing.json"], "cannot read missing.json"),
    (["map", "book.txt"], "book.txt is not JSON"),
    (["rebalance", "--strategy", "fluit"], "did you mean 'fluid'?"),
    (["rebalance", "--dryrun"], "did you mean '--dry-run'?"),
    (["explain", "cuont"], "did you mean 'count'?"),
    (["status", "--job", "cuonts"], "did you mean 'counts'?"),
    (["cancel"], "no plan is under way"),
    (["statsu"], "did you mean 'status'?"),
]


def test_wrong_arguments_get_the_closest_right_one(folder: Path):
    with running(folder, "counts", "-n2", "--epoch-lines", "20"):
        wait_for_status(folder, flows)
        for arguments, complaint in WRONG:
            ended = hailer(folder, *arguments)
            assert ended.code in (1, 2), arguments
            assert complaint in ended.err
            assert "Traceback" not in ended.err


def test_explain_names_the_worker_the_capability_and_the_way(folder: Path):
    with running(folder, "stuck", "-n2", "--epoch-lines", "5"):
        wait_for_status(folder, lambda answer: answer["frontier"] == [0] and answer["operators"])
        wait_until(lambda: "capability" in hailer(folder, "explain").out)
        assert ask(folder, "explain").splitlines() == [
            "'probe' (0.6) waits at epoch 0",
            "  worker 1 holds a capability for 0 at output 0 of 'keep' (0.4)",
            "    keep → inspect_batch → probe",
        ]
        answer = json.loads(ask(folder, "explain", "map", "--json"))
        assert answer["frontier"] > [0]
        assert {blocker["name"] for blocker in answer["held"]} == {"lines"}


def test_a_worker_that_is_busy_is_told_and_not_waited_for(folder: Path):
    with running(folder, "busy", "-n2"):
        wait_until((folder / "waiting").exists)
        answer = status(folder)
        assert any(worker["silent"] for worker in answer["workers"])
        assert "did not get to its next step within 2 s" in ask(folder, "status")
        (folder / "go").touch()


def test_several_jobs_in_a_directory_are_told_apart(folder: Path):
    with running(folder, "counts", "--epoch-lines", "20"), running(folder, "counts", "--epoch-lines", "20"):
        wait_until(lambda: len(list(folder.glob(".hailer/*/job.json"))) == 2)
        assert "2 jobs run in" in hailer(folder, "status").err
        assert json.loads(ask(folder, "status", "--job", "counts-2", "--json"))["job"] == "counts-2"


def test_a_job_that_was_killed_is_not_found_and_its_folder_is_used_again(folder: Path):
    with running(folder, "counts", "--epoch-lines", "20") as process:
        wait_for_status(folder, flows)
        process.kill()
        process.wait()
        assert (folder / ".hailer" / "counts" / "job.json").exists()
        assert "no job runs in" in hailer(folder, "status").err
    with running(folder, "counts", "--epoch-lines", "20"):
        wait_for_status(folder, lambda answer: answer["job"] == "counts")


def test_a_directory_without_room_for_a_run_directory_runs_jobs_all_the_same(folder: Path):
    (folder / ".hailer").write_text("in the way")
    (folder / "few.txt").write_text("tea\n")
    ended = hailer(folder, "run", "counts.py", "--input", "lines=few.txt")
    assert (ended.code, ended.out) == (0, 'counts\t0\t["tea", 1]\n')
    assert "this job cannot be steered while it runs" in ended.err


def test_watching_ends_with_the_job(folder: Path):
    lines = (folder / "book.txt").read_text().splitlines()[:2000]
    (folder / "some.txt").write_text("\n".join(lines) + "\n")
    with running(folder, "counts", "--epoch-lines", "20", lines="some.txt"):
        ended = hailer(folder, "status", "--watch", "--json")
    assert (ended.code, ended.err) == (0, "")
    epochs = [json.loads(line)["frontier"] for line in ended.out.splitlines()]
    assert len(epochs) >= 2
    assert sorted(epochs, key=lambda frontier: frontier or [10**9]) == epochs


def test_with_prefixes_too_a_reader_that_goes_away_ends_the_job(folder: Path):
    command = [HAILER, "run", "--prefix", "counts.py", "-n2", "--input", "lines=book.txt", "--epoch-lines", "20"]
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert re.match(r"[01] \| counts\t\d+\t", process.stdout.readline())
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (1, "job stopped: whoever read the output has gone\n")


@pytest.mark.parametrize(("columns", "line"), [(100, r"counts   epoch \d+   2 workers   0:\d\d"), (12, r"epoch \d+")])
def test_on_a_terminal_lines_have_prefixes_and_progress_is_shown(folder: Path, columns: int, line: str):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    lines = (folder / "book.txt").read_text().splitlines()[:1200]
    (folder / "some.txt").write_text("\n".join(lines) + "\n")
    variables = {key: value for key, value in environment(folder).items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [HAILER, "run", "counts.py", "-n2", "--input", "lines=some.txt", "--epoch-lines", "10"],
        cwd=folder,
        env={**variables, "TERM": "xterm"},
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    try:
        while data := os.read(master, 65_536):
            shown += data
    except OSError:  # what the end of a terminal looks like
        pass
    assert process.wait(WAIT_S) == 0
    os.close(master)
    text = shown.decode().replace("\r\n", "\n")
    assert re.search(rf"^{line}$", text.replace("\r\x1b[K", "\n"), re.M), text[-500:]
    printed = "\n".join(row.rpartition("\r\x1b[K")[2] for row in text.split("\n"))  # as it is seen in the end
    rows = [found.groups() for found in re.finditer(r'^([01]) \| counts\t\d+\t\["(w\d+)", \d+\]$', printed, re.M)]
    expected = Counter(word for line in lines for word in line.split())
    assert Counter(word for _, word in rows) == expected
    assert {worker for worker, _ in rows} == {"0", "1"}


def test_the_doctor_finds_what_hides_our_packages(tmp_path: Path):
    well = hailer(tmp_path, "doctor")
    assert well.code == 0, well.out
    assert {line[:4].strip() for line in well.out.splitlines()} <= {"ok", "note"}
    (tmp_path / "routing.py").touch()
    ill = hailer(tmp_path, "doctor")
    assert ill.code == 1
    assert "bad   routing.py in this directory hides Hailer's package from jobs here; rename it" in ill.out


@pytest.mark.parametrize(
    "command", ["run", "status", "explain", "move", "map", "rebalance", "cancel", "scale", "leave", "doctor"]
)
def test_every_command_has_help_with_an_example(tmp_path: Path, command: str):
    assert f"example: hailer {command}" in ask(tmp_path, command, "--help")
