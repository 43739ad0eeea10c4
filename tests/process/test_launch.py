"""A computation in real processes: it starts however it is told to, uses no CPU while idle, and keeps its memory."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.processes import Program, end, free_ports

COUNTING = """
    from operators import Input, Probe, execute_from_args

    def main(worker):
        numbers, probe, seen = Input(), Probe(), []
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number).inspect(seen.append).probe(probe)
        for number in range(100):
            numbers.send(number)
            numbers.advance_to(number + 1)
        worker.step_while(lambda: probe.less_than(100))
        workers = worker.peers
        assert sorted(seen) == sorted(list(range(worker.index, 100, workers)) * workers), seen
        said = [f"worker {worker.index} of {workers}: {sum(seen)}", *worker.args]
        print(" ".join(said) + "\\n", end="")  # one write: threads share the output

    execute_from_args(main)
"""


def _said(workers: int, *args: str) -> list[str]:
    totals = [workers * sum(range(index, 100, workers)) for index in range(workers)]
    return [" ".join([f"worker {index} of {workers}: {total}", *args]) for index, total in enumerate(totals)]


@pytest.mark.parametrize(("shape", "workers"), [([], 1), (["-w3"], 3), (["-n3"], 3), (["-n2", "-w2"], 4)])
def test_one_command_starts_all_workers(tmp_path: Path, shape: list[str], workers: int):
    ended = Program.write(tmp_path, COUNTING).run(*shape, "--mine", "7")
    assert (ended.code, sorted(ended.out.splitlines()), ended.err) == (0, _said(workers, "--mine", "7"), "")


def test_processes_started_one_by_one_find_each_other_by_hostfile(tmp_path: Path):
    program, port = Program.write(tmp_path, COUNTING), free_ports(2)
    hostfile = tmp_path / "hosts"
    hostfile.write_text(f"# two of them\n127.0.0.1:{port + 1}\n127.0.0.1:{port}  # the second\n\n")
    started = [program.start("-p", str(index), "--hostfile", str(hostfile)) for index in (1, 0)]
    ended = [end(process) for process in started]
    assert [one.code for one in ended] == [0, 0]
    assert sorted(line for one in ended for line in one.out.splitlines()) == _said(2)


def test_eight_processes_start_run_and_stop_again_and_again(tmp_path: Path):
    program = Program.write(tmp_path, COUNTING)
    for _ in range(2):
        ended = program.run("-n8")
        assert (ended.code, sorted(ended.out.splitlines()), ended.said) == (0, _said(8), [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p2", "-n2"], "-p 2: there are 2 processes, so -p is between 0 and 1; -n sets their number"),
        (["-p", "-1"], "-p -1: there is 1 process, so -p is between 0 and 0; -n sets their number"),
        (["-n0"], "-n 0: there are between 1 and 1024 processes"),
        (["-w0"], "-w 0: a process has between 1 and 256 worker threads"),
        (["-n", "two"], "argument -n/--processes: invalid int value: 'two'"),
        (["--hostfile", "hosts"], "cannot read the hostfile hosts: No such file or directory"),
        (["-n2", "--base-port", "65535"], "--base-port 65535: 2 processes use ports 65535 to 65536"),
    ],
)
def test_bad_flags_are_answered_with_what_to_do(tmp_path: Path, arguments: list[str], expected: str):
    ended = Program.write(tmp_path, COUNTING).run(*arguments)
    assert ended.code == 2
    assert expected in ended.err.splitlines()[0]
    assert "--base-port PORT" in ended.err


def test_a_port_that_is_taken_is_named_with_the_flag_that_chooses_another(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = Program.write(tmp_path, COUNTING).run("-n2", "-p0", "--base-port", str(port))
    assert ended.code == 1
    assert f"127.0.0.1:{port}" in ended.err
    assert "--base-port" in ended.err


def test_processes_with_different_secrets_do_not_meet(tmp_path: Path):
    program, port = Program.write(tmp_path, COUNTING), str(free_ports(2))
    first = program.start("-n2", "-p0", "--base-port", port, secret="one")
    ended = end(program.start("-n2", "-p1", "--base-port", port, secret="other"))
    first.terminate()
    assert end(first).code == 143
    assert ended.code == 1
    assert "has another cluster secret than this process" in ended.err


def test_clusters_of_different_sizes_do_not_mix(tmp_path: Path):
    program, port = Program.write(tmp_path, COUNTING), str(free_ports(3))
    first = program.start("-n2", "-p0", "--base-port", port)
    ended = end(program.start("-n3", "-p2", "--base-port", port))
    first.terminate()
    end(first)
    assert ended.code == 1
    assert "refused this process" in ended.err


def test_parked_workers_use_no_cpu(tmp_path: Path):
    """Two processes of two threads with an open input and nothing to do, for two seconds."""
    ended = Program.write(
        tmp_path,
        """
        import time
        from operators import Input, Probe, execute_from_args

        def main(worker):
            numbers, probe = Input(), Probe()
            with worker.dataflow() as scope:
                numbers.stream(scope).exchange(lambda number: number).probe(probe)
            numbers.send(worker.index)
            numbers.advance_to(1)
            worker.step_while(lambda: probe.less_than(1))
            settled = time.monotonic() + 0.5
            while time.monotonic() < settled:
                worker.step_or_park(settled - time.monotonic())
            until, used_s = time.monotonic() + 2, time.thread_time()
            while time.monotonic() < until:
                worker.step_or_park(until - time.monotonic())
            print(f"{time.thread_time() - used_s}\\n", end="")

        execute_from_args(main)
        """,
    ).run("-n2", "-w2")
    assert ended.code == 0
    used_s = [float(line) for line in ended.out.splitlines()]
    assert len(used_s) == 4
    assert max(used_s) < 0.1, used_s


@pytest.mark.parametrize("shape", [["-n2"], ["-w2"]])
@pytest.mark.parametrize("source", ["input", "iterator"])
def test_a_source_that_is_faster_than_an_operator_slows_down(tmp_path: Path, shape: list[str], source: str):
    """Worker 0 has 400 MB to send and worker 1 takes its time: neither may hold more than a fraction of it."""
    ended = Program.write(
        tmp_path,
        """
        import resource, time
        from operators import Input, Probe, execute_from_args, iterator_source

        CONTAINERS, ROWS = 400, 1000

        def rss_mb():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        def rows(container):
            return [(0, container * ROWS + index, f"{container * ROWS + index:01000}") for index in range(ROWS)]

        def main(worker):
            texts, probe, seen = Input(), Probe(), [0, 0]

            def slow(time_, some):
                time.sleep(0.005)
                seen[0] += len(some)
                seen[1] += sum(row[1] for row in some)

            mine = range(CONTAINERS) if worker.index == 0 else range(0)
            before_mb = rss_mb()
            with worker.dataflow() as scope:
                if worker.args[0] == "input":
                    stream = texts.stream(scope)
                else:
                    stream = iterator_source(scope, ((0, rows(container)) for container in mine))
                stream.exchange(lambda _: 1).inspect_batch(slow).probe(probe)
            if worker.args[0] == "input":
                for container in mine:
                    texts.send_batch(rows(container))
                texts.close()
            worker.step_while(lambda: not probe.done())
            if worker.index == 1:
                total = CONTAINERS * ROWS
                assert seen == [total, total * (total - 1) // 2], seen
            print(f"{rss_mb() - before_mb}\\n", end="")  # one write: threads share the output

        execute_from_args(main)
        """,
    ).run(*shape, source)
    assert (ended.code, ended.err) == (0, "")
    grown_mb = [float(line) for line in ended.out.splitlines()]
    assert len(grown_mb) == 2
    assert max(grown_mb) < 100 * (2 if shape == ["-w2"] else 1), grown_mb
