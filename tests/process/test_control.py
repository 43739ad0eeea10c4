"""The `hailer` command and a job that runs: found by its directory, watched, steered, explained."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from operators.admin.json_codec import from_json
from operators.admin.run_directory import find_job, how_it_ended
from operators.control.job_messages import JobStatus
from operators.control.render import status_page
from tests.process.jobs import (
    COUNTS,
    HAILER,
    WAIT_S,
    ask,
    check_the_end,
    counting,
    feeding,
    hailer,
    running,
    say,
    status,
    wait_until,
)
from tests.processes import end, start

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


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a job on two processes that is asked, and not changed."""
    folder = tmp_path_factory.mktemp("watched")
    with counting(folder, "-n2"):
        yield folder


def test_status_tells_workers_operators_rates_and_bins(watched: Path):
    answer = json.loads(ask(watched, "status", "--json"))
    assert (answer["job"], [worker["worker"] for worker in answer["workers"]]) == ("counts", [0, 1])
    assert len({worker["pid"] for worker in answer["workers"]}) == 2
    rates = {operator["name"]: operator["records_per_s"] for operator in answer["operators"]}
    assert 100 < rates["flat_map"] < 1500
    assert rates["map"] > 4 * rates["flat_map"]
    [bins] = answer["bins"]
    assert (bins["name"], Counter(bins["owners"])) == ("count", {0: 8, 1: 8})
    assert sum(bins["keys"].values()) == sum(worker["keys"] for worker in answer["workers"]) > 50
    page = ask(watched, "status")
    assert re.search(r"^counts   2 processes, 2 workers   running for .*complete before epoch \d+$", page, re.M)
    assert re.search(r"^count\s+0: 8  1: 8\s+16\s+\d+\s+0$", page, re.M)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["move", "16", "--to", "1"], "there is no bin 16; the bins are 0 to 15"),
        (["move", "1", "--to", "7"], "there is no worker 7; there are 0, 1"),
        (["move", "1"], "the following arguments are required: --to"),
        (["move", "one", "--to", "1"], "invalid int value: 'one'"),
        (["map", "missing.json"], "cannot read missing.json"),
        (["map", "counts.py"], "counts.py is not JSON"),
        (["rebalance", "--strategy", "fluit"], "did you mean 'fluid'?"),
        (["rebalance", "--dryrun"], "did you mean '--dry-run'?"),
        (["explain", "cuont"], "did you mean 'count'?"),
        (["status", "--job", "cuonts"], "did you mean 'counts'?"),
        (["cancel"], "no bins are being moved"),
        (["statsu"], "did you mean 'status'?"),
        (["scale", "0"], "a job has between 1 process, which feeds it, and 1024, not 0"),
        (["scale", "two"], "invalid int value: 'two'"),
        (["scale", "2", "--dryrun"], "did you mean '--dry-run'?"),
        (["leave", "0"], "worker 0 cannot leave: it feeds the job and sends its commands"),
        (["leave", "7"], "there is no worker 7; there are 0, 1"),
        (["scael", "2"], "did you mean 'scale'?"),
    ],
)
def test_what_is_wrong_is_told_with_what_would_be_right(watched: Path, arguments: list[str], complaint: str):
    ended = say(watched, *arguments)
    assert ended.code in (1, 2)
    assert complaint in ended.err


def test_bins_move_by_command_and_no_count_is_wrong(tmp_path: Path):
    with counting(tmp_path, "-n2") as (process, feed):
        said = ask(tmp_path, "move", "0", "2", "--to", "1")
        assert re.fullmatch(r"moved 2 bins, [\d.]+ \w+, in .*, longest stall .*\n", said)
        assert "0 bytes" not in said
        assert Counter(status(tmp_path)["bins"][0]["owners"]) == {0: 6, 1: 10}
        (tmp_path / "owners.json").write_text(json.dumps([1] * 16))
        assert ask(tmp_path, "map", "owners.json", "--strategy", "fluid").startswith("moved 6 bins, ")
        plan = ask(tmp_path, "rebalance", "--dry-run")
        assert plan.startswith("step  bins  bytes  bin: from→to\n")
        assert Counter(status(tmp_path)["bins"][0]["owners"]) == {1: 16}
        assert ask(tmp_path, "rebalance").startswith("moved ")
        moved = status(tmp_path)
        assert (moved["moving"]["text"], moved["moving"]["finished"]) == ("rebalance", True)
        assert Counter(moved["bins"][0]["owners"])[0] > 2
        assert check_the_end(tmp_path, process, feed).complaints == []
    assert {path.name for path in tmp_path.glob(".hailer/*/*")} == {"claim", "ended.json"}
    assert "no job runs in" in hailer(tmp_path, "status").err


def test_moves_can_be_cancelled_between_steps(tmp_path: Path):
    with counting(tmp_path, "-n2"):
        (tmp_path / "owners.json").write_text(json.dumps([1] * 16))
        moving = start((HAILER, "map", "owners.json", "--strategy", "fluid", "--gap", "1"), tmp_path, tmp_path)
        wait_until(lambda: (change := status(tmp_path)["moving"]) and change["bins_moved"] >= 1)
        told = re.fullmatch(r"map ends after this step: (\d) of 8 bins have moved\n", say(tmp_path, "cancel").out)
        assert told is not None
        moved = int(told[1])
        ended = end(moving)
        assert ended.code == 1
        assert re.fullmatch(rf"moved {moved} bins?, .*; cancelled, {8 - moved} bins? stayed\n", ended.out)
        assert "no bins are being moved" in say(tmp_path, "cancel").err
        wait_until(lambda: Counter(status(tmp_path)["bins"][0]["owners"]) == {0: 8 - moved, 1: 8 + moved})


def test_explain_names_the_worker_the_capability_and_the_way(tmp_path: Path):
    (tmp_path / "stuck.py").write_text(STUCK)
    (tmp_path / "lines").write_text("tea\n" * 1000)
    with running(tmp_path, "stuck", "-n2", "--epoch-lines", "5", "--output", "lines=out") as process:
        found, _ = find_job(tmp_path, None)
        wait_until(lambda: "capability" in say(tmp_path, "explain").out)
        assert ask(tmp_path, "explain").splitlines() == [
            "'probe' (0.9) waits at epoch 0",
            "  worker 1 holds a capability for 0 at output 0 of 'keep' (0.4)",
            "    keep → probe",
        ]
        answer = json.loads(ask(tmp_path, "explain", "map", "--json"))
        assert answer["frontier"] > [0]
        assert {blocker["name"] for blocker in answer["held"]} == {"lines"}
    ended = how_it_ended(tmp_path, found)
    assert ended is not None
    assert ended.report == f"job stopped: process {process.pid} received SIGTERM"


def test_a_worker_that_is_busy_is_told_and_not_waited_for(tmp_path: Path):
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "lines").write_text("tea\n" * 1000)
    with running(tmp_path, "busy", "-n2", "--output", "lines=out"):
        wait_until((tmp_path / "waiting").exists)
        answer = status(tmp_path)
        assert any(worker["silent"] for worker in answer["workers"])
        assert "did not get to its next step within 2 s" in status_page(from_json(JobStatus, answer))
        (tmp_path / "go").touch()


def test_several_jobs_in_a_directory_are_told_apart(tmp_path: Path):
    with feeding(tmp_path), running(tmp_path, "counts"), running(tmp_path, "counts"):
        wait_until(lambda: len(list(tmp_path.glob(".hailer/*/job.json"))) == 2)
        assert "2 jobs run in" in say(tmp_path, "status").err
        assert json.loads(say(tmp_path, "status", "--job", "counts-2", "--json").out)["job"] == "counts-2"


def test_a_job_that_was_killed_is_not_found_and_its_folder_is_used_again(tmp_path: Path):
    with counting(tmp_path) as (process, _):
        process.kill()
        process.wait()
        assert (tmp_path / ".hailer" / "counts" / "job.json").exists()
        assert "no job runs in" in say(tmp_path, "status").err
    with counting(tmp_path, "--overwrite"):
        assert status(tmp_path)["job"] == "counts"


def test_a_directory_without_room_for_a_run_directory_runs_jobs_all_the_same(tmp_path: Path):
    (tmp_path / "counts.py").write_text(COUNTS)
    (tmp_path / ".hailer").write_text("in the way")
    (tmp_path / "few.txt").write_text("tea\n")
    ended = hailer(tmp_path, "run", "counts.py", "--input", "lines=few.txt")
    assert (ended.code, ended.out) == (0, 'counts\t0\t["tea", 1]\n')
    assert "this job cannot be steered while it runs" in ended.err


def test_watching_ends_with_the_job(tmp_path: Path):
    with counting(tmp_path) as (_, feed):
        watching = start((HAILER, "status", "--watch", "--json"), tmp_path, tmp_path)
        reading = start((HAILER, "status", "--watch"), tmp_path, tmp_path)
        assert watching.stdout is not None
        looks = [watching.stdout.readline() for _ in range(2)]
        feed.close()
        ended, read = end(watching), end(reading)
    assert (ended.code, ended.err) == (read.code, read.err) == (0, "")
    assert re.search(rf"\ncounts ended after .*: \d+ epochs, {feed.lines:,} records, \d+ records/s\n$", read.out)
    epochs = [json.loads(line)["frontier"] for line in [*looks, *ended.out.splitlines()]]
    assert sorted(epochs, key=lambda frontier: frontier or [10**9]) == epochs
    assert epochs[0] < epochs[1]


def test_with_prefixes_too_a_reader_that_goes_away_ends_the_job(tmp_path: Path):
    with feeding(tmp_path):
        process = start((HAILER, "run", "--prefix", "counts.py", "-n2", "--input", "lines=lines"), tmp_path, tmp_path)
        assert process.stdout is not None
        assert process.stderr is not None
        assert re.match(r"[01] \| counts\t\d+\t", process.stdout.readline())
        process.stdout.close()
        with process.stderr as err:
            said = err.read()
        assert (process.wait(WAIT_S), said) == (1, "job stopped: the reader of the output has gone\n")


@pytest.mark.parametrize(("columns", "line"), [(100, r"counts   epoch \d+   2 workers   0:\d\d"), (12, r"epoch \d+")])
def test_on_a_terminal_lines_have_prefixes_and_progress_is_shown(tmp_path: Path, columns: int, line: str):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with feeding(tmp_path) as feed:
        process = subprocess.Popen(
            [HAILER, "run", "counts.py", "-n2", "--input", "lines=lines", "--epoch-lines", "10"],
            cwd=tmp_path,
            env={**variables, "TERM": "xterm", "HAILER_SECRET_FILE": str(tmp_path / "secret")},
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        try:
            while data := os.read(master, 65_536):
                shown += data
                if re.search(rf"^{line}$".encode(), shown.replace(b"\r\x1b[K", b"\n"), re.M):
                    feed.close()
        except OSError:  # what the end of a terminal looks like
            pass
    assert process.wait(WAIT_S) == 0
    os.close(master)
    text = shown.decode().replace("\r\n", "\n")
    assert re.search(rf"^{line}$", text.replace("\r\x1b[K", "\n"), re.M), text[-500:]
    printed = "\n".join(row.rpartition("\r\x1b[K")[2] for row in text.split("\n"))  # as it is seen in the end
    rows = [found.groups() for found in re.finditer(r'^([01]) \| counts\t\d+\t\["(w\d+)", \d+\]$', printed, re.M)]
    assert Counter(word for _, word in rows) == feed.words
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
    assert f"example: hailer {command}" in say(tmp_path, command, "--help").out
