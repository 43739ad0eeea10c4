"""Whatever goes wrong in a job: every process ends, nothing hangs, and one report says what, where and when."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.processes import Program, end, free_ports, wait_for_line

FAILING = """
    from operators import Input, Probe, execute_from_args

    def parse(text):
        return int(text)

    def main(worker):
        texts, probe = Input(), Probe()
        with worker.dataflow() as scope:
            texts.stream(scope).exchange(lambda _: 1).map(parse, name="parse").probe(probe)
        for epoch in range(10):
            if worker.index == 0:
                texts.send("seven" if epoch == 7 else "7")
            texts.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(texts.time))

    execute_from_args(main)
"""

REPORT = [
    "job failed: operator 'parse' (0.3) failed on worker 1 at time 7",
    "  ValueError: invalid literal for int() with base 10: 'seven'",
]

WAITING = """
    import time
    from operators import Input, Probe, execute_from_args

    def main(worker):
        numbers, probe = Input(), Probe()
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number).probe(probe)
        numbers.send(1)
        numbers.advance_to(1)
        worker.step_while(lambda: probe.less_than(1))
        print(f"worker {worker.index} is up", flush=True)
        if "asleep" in worker.args:
            time.sleep(600)
        worker.step_while(lambda: True)

    execute_from_args(main)
"""

BUSY = """
    from operators import execute_from_args, to_stream

    def work(number):
        print("busy", flush=True)
        while True:
            pass

    def main(worker):
        with worker.dataflow() as scope:
            to_stream(scope, [1] if worker.index == 0 else []).map(work)

    execute_from_args(main)
"""


@pytest.mark.parametrize("shape", [["-n3"], ["-w3"], ["-n2", "-w2"]])
def test_a_function_that_raises_ends_the_job_with_one_report(tmp_path: Path, shape: list[str]):
    ended = Program.write(tmp_path, FAILING).run(*shape)
    assert (ended.code, ended.said[:2]) == (1, REPORT)
    assert ended.err.count("job failed") == 1
    assert "in parse" in ended.err
    assert "framework" not in ended.err


def test_processes_started_one_by_one_all_report_the_failure(tmp_path: Path):
    program, port = Program.write(tmp_path, FAILING), str(free_ports(3))
    started = [program.start("-n3", "-p", str(index), "--base-port", port) for index in range(3)]
    for ended in [end(process) for process in started]:
        assert (ended.code, ended.said[:2]) == (1, REPORT)


def test_a_program_that_raises_ends_the_job(tmp_path: Path):
    ended = Program.write(
        tmp_path,
        """
        from operators import Input, execute_from_args

        def main(worker):
            numbers = Input()
            with worker.dataflow() as scope:
                numbers.stream(scope).exchange(lambda number: number)
            if worker.index == 2:
                raise KeyError("lost keys")
            worker.step_while(lambda: True)

        execute_from_args(main)
        """,
    ).run("-n3")
    assert (ended.code, ended.said[:2]) == (
        1,
        ["job failed: the program of worker 2 raised", "  KeyError: 'lost keys'"],
    )


def test_a_record_that_cannot_travel_is_named_with_its_operator(tmp_path: Path):
    ended = Program.write(
        tmp_path,
        """
        from operators import Input, execute_from_args

        class Order:
            pass

        def main(worker):
            numbers = Input()
            with worker.dataflow() as scope:
                numbers.stream(scope).map(lambda _: Order(), name="order").exchange(lambda _: 1)
            numbers.send(1)

        execute_from_args(main)
        """,
    ).run("-n2")
    assert ended.code == 1
    assert "UnencodableRecord: operator 'order' sent a Order" in ended.err


def test_workers_that_build_different_dataflows_are_told(tmp_path: Path):
    ended = Program.write(
        tmp_path,
        """
        from operators import Input, execute_from_args

        def main(worker):
            numbers = Input()
            with worker.dataflow() as scope:
                stream = numbers.stream(scope).exchange(lambda number: number)
                if worker.index == 0:
                    stream.map(str)

        execute_from_args(main)
        """,
    ).run("-n2")
    assert ended.code == 1
    assert "workers 0 and 1 built different dataflows" in ended.err or (
        "workers 1 and 0 built different dataflows" in ended.err
    )


@pytest.mark.parametrize("state", ["awake", "asleep"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_ends_every_process(tmp_path: Path, number: signal.Signals, code: int, state: str):
    with Program.write(tmp_path, WAITING).started("-n3", state) as process:
        wait_for_line(process, "worker 0 is up")
        process.send_signal(number)
        ended = end(process)
    assert ended.code == code
    assert ended.said == [f"job stopped: process {process.pid} received {number.name}"]
    assert not _descendants_alive(tmp_path)


@pytest.mark.parametrize("shape", [[], ["-n2"]])
def test_ctrl_c_says_that_a_second_one_ends_a_busy_job_at_once(tmp_path: Path, shape: list[str]):
    with Program.write(tmp_path, BUSY).started(*shape) as process:
        wait_for_line(process, "busy")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == "hailer: the job is still ending; Ctrl-C again ends it at once\n"
        process.send_signal(signal.SIGINT)
        ended = end(process, timeout_s=5)
    assert (ended.code, ended.err) == (130, "")
    assert not _descendants_alive(tmp_path)


def test_ctrl_c_in_one_terminal_ends_the_processes_in_the_others(tmp_path: Path):
    program, port = Program.write(tmp_path, WAITING), str(free_ports(2))
    with (
        program.started("-n2", "-p0", "--base-port", port) as first,
        program.started("-n2", "-p1", "--base-port", port) as second,
    ):
        wait_for_line(first, "worker 0 is up")
        wait_for_line(second, "worker 1 is up")
        first.send_signal(signal.SIGINT)
        ended = [end(first), end(second)]
    assert [one.code for one in ended] == [130, 1]
    assert [one.said for one in ended] == [[f"job stopped: process {first.pid} received SIGINT"]] * 2


def test_a_process_that_is_killed_ends_the_others(tmp_path: Path):
    program, port = Program.write(tmp_path, WAITING), str(free_ports(2))
    with (
        program.started("-n2", "-p0", "--base-port", port) as first,
        program.started("-n2", "-p1", "--base-port", port) as second,
    ):
        wait_for_line(first, "worker 0 is up")
        wait_for_line(second, "worker 1 is up")
        second.kill()
        ended = end(first)
    assert ended.code == 1
    assert ended.said[0].startswith("job failed: worker 0 lost worker 1: ")


def test_a_killed_child_is_named_by_the_launcher_although_the_others_are_asleep(tmp_path: Path):
    with Program.write(tmp_path, WAITING).started("-n2", "asleep") as process:
        wait_for_line(process, "worker 1 is up")
        victim = max(_descendants_alive(tmp_path) - {process.pid})
        os.kill(victim, signal.SIGKILL)
        ended = end(process)
    assert ended.code == 1
    assert ended.said[0].startswith("job failed: process ")
    assert "was ended by SIGKILL" in ended.said[0]


FORKING = """
    import os
    import time
    from pathlib import Path
    from operators import execute_from_args

    def main(worker):
        if worker.index == 1:
            if (helper := os.fork()) == 0:
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.dup2(1, 2)
                time.sleep(600)
                os._exit(0)
            Path(__file__).with_name("helper").write_text(str(helper))
            os.kill(os.getpid(), 9)
        worker.step_while(lambda: True)

    execute_from_args(main)
"""


def test_a_killed_process_is_noticed_although_a_child_of_its_own_lives_on(tmp_path: Path):
    """What it has forked, as multiprocessing does, holds its status pipe."""
    try:
        ended = Program.write(tmp_path, FORKING).run("-n2")
    finally:
        os.kill(int((tmp_path / "helper").read_text()), signal.SIGKILL)
    assert (ended.code, ended.said[0]) == (1, "job failed: process 1 was ended by SIGKILL")


def test_peers_notice_that_a_process_was_killed_although_a_child_of_its_own_lives_on(tmp_path: Path):
    """Processes that are started by hand have no supervisor that would."""
    program, port = Program.write(tmp_path, FORKING), str(free_ports(2))
    try:
        with program.started("-n2", "-p1", "--base-port", port):
            ended = end(program.start("-n2", "-p0", "--base-port", port))
    finally:
        os.kill(int((tmp_path / "helper").read_text()), signal.SIGKILL)
    assert ended.code == 1
    assert ended.said[0].startswith("job failed: worker 0 lost worker 1: ")


def test_what_a_process_executes_inherits_none_of_its_descriptors(tmp_path: Path):
    ended = Program.write(
        tmp_path,
        """
        import os
        from operators import execute_from_args

        def main(worker):
            opened = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
            print([descriptor for descriptor in opened if descriptor > 2 and os.get_inheritable(descriptor)])

        execute_from_args(main)
        """,
    ).run("-n2")
    assert ended.lines == ["[]"] * 2


def test_children_end_when_their_launcher_is_killed(tmp_path: Path):
    with Program.write(tmp_path, WAITING).started("-n2", "asleep") as process:
        wait_for_line(process, "worker 1 is up")
        process.kill()
        process.communicate()  # the children hold the pipes: their end is the end of the output
    assert not _descendants_alive(tmp_path)


def test_a_stranger_at_the_port_is_cut_off_while_the_job_goes_on(tmp_path: Path):
    program, port = Program.write(tmp_path, WAITING), free_ports(2)
    with (
        program.started("-n2", "-p0", "--base-port", str(port)) as first,
        program.started("-n2", "-p1", "--base-port", str(port)) as second,
    ):
        wait_for_line(first, "worker 0 is up")
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" * 100)
            stranger.settimeout(30)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        assert first.poll() is None
        first.send_signal(signal.SIGTERM)
        assert "cut off" in end(first).err
        end(second)


def _descendants_alive(folder: Path) -> set[int]:
    """The processes that run the program of this test."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in command:
                found.add(int(entry.name))
    return found
