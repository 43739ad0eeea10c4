"""Flags and hostfiles become a configuration, or an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import ConfigError
from framework.launch.config import Config, parse, read_hostfile, usage, with_spawned
from framework.launch.liveness import LivenessLimits
from framework.launch.spawned import Spawned
from framework.wire.credentials import Encryption


def local(*ports: int) -> tuple[tuple[str, int], ...]:
    return tuple(("127.0.0.1", port) for port in ports)


@pytest.mark.parametrize(
    ("argv", "config", "rest"),
    [
        ([], Config(), []),
        (["-w4", "book.txt"], Config(threads=4), ["book.txt"]),
        (["-n2", "-p1"], Config(addresses=local(2101, 2102), process=1, joinable=True, by_hand=True), []),
        (["-n2"], Config(addresses=local(2101, 2102), process=None), []),
        (
            ["-n", "2", "-p", "0", "--base-port", "7000"],
            Config(addresses=local(7000, 7001), process=0, joinable=True, by_hand=True),
            [],
        ),
        (["--secret-file", "s", "--rate", "9"], Config(secret_file=Path("s")), ["--rate", "9"]),
        (["--no-tls"], Config(encryption=Encryption.NEVER), []),
        (["--", "-x"], Config(), ["-x"]),
        (["--heartbeat-timeout", "9", "--step-timeout", "60"], Config(liveness=LivenessLimits(9, 60)), []),
    ],
)
def test_flags(argv: list[str], config: Config, rest: list[str]):
    assert parse(argv) == (config, rest)


@pytest.mark.parametrize("flag", ["--heartbeat-timeout", "--step-timeout"])
@pytest.mark.parametrize("value", ["1.5", "nan", "-3"])
def test_a_process_cannot_be_lost_between_two_heartbeats(flag: str, value: str):
    with pytest.raises(ConfigError, match=f"{flag} {value}: give 2 seconds at least"):
        parse([flag, value])


def test_a_hostfile_says_how_many_processes_there_are(tmp_path: Path):
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n10.0.0.1:2101\n[::1]:2102 # the second\n\n")
    config, _ = parse(["-p1", "-w2", "--hostfile", str(hosts)])
    assert config == Config(
        threads=2, addresses=(("10.0.0.1", 2101), ("::1", 2102)), process=1, joinable=True, by_hand=True
    )
    assert (config.processes, config.workers, config.first_worker) == (2, 4, 2)


@pytest.mark.parametrize(
    ("text", "processes", "complaint"),
    [
        ("a:1\n\nb:2\n", None, "has a hole: the line of process 1 is empty"),
        ("a:1\n", 2, "has 1 addresses and -n says 2 processes"),
        ("a:1\na:1\n", None, "names a:1 twice"),
        ("", None, "is empty"),
        ("a\n", None, "process 0 is 'a', not a host:port"),
        ("a:0\n", None, "process 0 is 'a:0', not a host:port"),
        ("a:70000\n", None, "process 0 is 'a:70000', not a host:port"),
        (":2101\n", None, "process 0 is ':2101', not a host:port"),
    ],
)
def test_a_bad_hostfile(tmp_path: Path, text: str, processes: int | None, complaint: str):
    hosts = tmp_path / "hosts"
    hosts.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_hostfile(hosts, processes)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["-p3", "-n3"], "-p 3: there are 3 processes, so -p is between 0 and 2"),
        (["-n1025"], "between 1 and 1024 processes"),
        (["-w", "257"], "between 1 and 256 worker threads"),
        (["--base-port", "0"], "must lie between 1 and 65535"),
        (["-w", "x"], "invalid int value: 'x'"),
        (["-w"], "expected one argument"),
    ],
)
def test_bad_flags(argv: list[str], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        parse(argv)


def test_a_hostfile_needs_to_know_which_process_this_is(tmp_path: Path):
    hosts = tmp_path / "hosts"
    hosts.write_text("a:1\nb:1\n")
    with pytest.raises(ConfigError, match="--hostfile needs -p: which of its lines, 0 to 1"):
        parse(["--hostfile", str(hosts)])
    with pytest.raises(ConfigError, match="give one of them"):
        parse(["--hostfile", str(hosts), "--base-port", "9", "-p0"])


def test_what_the_launcher_says_is_heard_once(monkeypatch: pytest.MonkeyPatch):
    spawned = Spawned(1, local(5, 6), listener_fd=7, lifeline_fd=8, status_fd=9, rpc_fd=10)
    monkeypatch.setenv("HAILER_SPAWNED", spawned.to_text())
    assert Spawned.from_environment() == spawned
    assert Spawned.from_environment() is None
    assert with_spawned(Config(threads=3, addresses=local(1, 2), process=None), spawned) == Config(
        threads=3, addresses=local(5, 6), process=1, joinable=True
    )


def test_a_process_that_is_started_later_joins_through_the_one_it_is_told(monkeypatch: pytest.MonkeyPatch):
    server = (1, local(6)[0])
    spawned = Spawned(2, local(7), listener_fd=7, lifeline_fd=8, status_fd=9, rpc_fd=10, server=server, run="5e1f")
    monkeypatch.setenv("HAILER_SPAWNED", spawned.to_text())
    assert Spawned.from_environment() == spawned
    config = with_spawned(Config(threads=2, addresses=local(1), process=0), spawned)
    assert (config.address, config.join, config.server, config.run) == (local(7)[0], local(6)[0], 1, "5e1f")


def test_the_usage_names_every_flag():
    for flag in ("--threads", "--processes", "--process", "--hostfile", "--base-port", "--secret-file", "--no-tls"):
        assert flag in usage()
