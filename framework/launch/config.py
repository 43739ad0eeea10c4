"""How many processes and threads a computation has, where they are, and which one this is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from framework.errors import ConfigError
from framework.launch.liveness import LivenessLimits
from framework.launch.spawned import Spawned
from framework.membership.members import Address
from framework.wire.credentials import Encryption

BASE_PORT = 2101
PROCESSES_MAX = 1024
THREADS_MAX = 256
LIVENESS_S_MIN = 2.0
"""Processes beat once a second."""


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a computation, as one process sees it."""

    threads: int = 1
    addresses: tuple[Address, ...] = (("127.0.0.1", BASE_PORT),)
    """Where the processes listen that the computation begins with; if this one joins, its own alone."""
    process: int | None = 0
    """None: start all processes on this machine."""
    secret_file: Path | None = None
    joinable: bool = False
    """Whether others may join, also if this is the only process."""
    join: Address | None = None
    """Where a member of the running job that this process joins listens."""
    server: int = 0
    """The process that listens there."""
    by_hand: bool = False
    """Whether the user starts the processes one by one, and nobody supervises them."""
    secret: bytes | None = field(default=None, repr=False)
    """The cluster's secret itself, where it is in no file."""
    run: str = ""
    """The run of the job that this process is of; see `framework.wire.credentials`."""
    encryption: Encryption = Encryption.BETWEEN_MACHINES
    liveness: LivenessLimits = field(default_factory=LivenessLimits)
    """When a process is lost, for the one that supervises it."""

    @property
    def address(self) -> Address:
        """Where this process listens."""
        return self.addresses[(self.process or 0) if self.join is None else 0]

    @property
    def processes(self) -> int:
        """How many processes the computation begins with."""
        return len(self.addresses)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self.threads * self.processes

    @property
    def first_worker(self) -> int:
        """The first worker of this process."""
        return self.threads * (self.process or 0)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of every program that runs a dataflow."""
    group = parser.add_argument_group("cluster")
    group.add_argument("-w", "--threads", type=int, default=1, metavar="N", help="worker threads per process (1)")
    group.add_argument("-n", "--processes", type=int, metavar="N", help="processes in all (1)")
    group.add_argument(
        "-p", "--process", type=int, metavar="I", help="which process this is; without it, all are started here"
    )
    group.add_argument("--hostfile", type=Path, metavar="FILE", help="one host:port per line, for processes 0, 1, …")
    group.add_argument(
        "--base-port", type=int, metavar="PORT", help=f"process I listens at 127.0.0.1, port PORT + I ({BASE_PORT})"
    )
    group.add_argument(
        "--join", type=int, metavar="J", help="join the running job of -n processes, with the help of process J"
    )
    group.add_argument("--nn", type=int, metavar="N", help="with --join: how many processes there are then (-p + 1)")
    group.add_argument("--secret-file", type=Path, metavar="FILE", help="the cluster's secret, the same everywhere")
    group.add_argument(
        "--no-tls", action="store_true", help="do not encrypt connections to other machines; the same everywhere"
    )
    usual = LivenessLimits()
    group.add_argument(
        "--heartbeat-timeout",
        type=float,
        metavar="SECONDS",
        default=usual.heartbeat_s,
        help=f"a process without heartbeat and CPU time for so long is lost, and the job ends ({usual.heartbeat_s:g})",
    )
    group.add_argument(
        "--step-timeout",
        type=float,
        metavar="SECONDS",
        help="so is one with a worker that takes longer for a step (unlimited); a step lasts as long as your functions",
    )


def encryption_from_flags(flags: argparse.Namespace) -> Encryption:
    """Which connections are encrypted."""
    return Encryption.NEVER if flags.no_tls else Encryption.BETWEEN_MACHINES


def config_from_flags(flags: argparse.Namespace) -> Config:
    """Check the flags and make them a configuration."""
    return replace(_shape(flags), encryption=encryption_from_flags(flags), liveness=_liveness(flags))


def _liveness(flags: argparse.Namespace) -> LivenessLimits:
    for flag, value in (("--heartbeat-timeout", flags.heartbeat_timeout), ("--step-timeout", flags.step_timeout)):
        if value is not None and not value >= LIVENESS_S_MIN:
            raise ConfigError(
                f"{flag} {value:g}: give {LIVENESS_S_MIN:g} seconds at least; processes beat once a second"
            )
    return LivenessLimits(flags.heartbeat_timeout, flags.step_timeout)


def _shape(flags: argparse.Namespace) -> Config:
    if flags.join is not None or flags.nn is not None:
        return _joining(flags)
    threads, processes, process = flags.threads, flags.processes, flags.process
    if not 1 <= threads <= THREADS_MAX:
        raise ConfigError(f"-w {threads}: a process has between 1 and {THREADS_MAX} worker threads")
    if processes is not None and not 1 <= processes <= PROCESSES_MAX:
        raise ConfigError(f"-n {processes}: there are between 1 and {PROCESSES_MAX} processes")
    if flags.hostfile is not None:
        if flags.base_port is not None:
            raise ConfigError("--hostfile says where processes listen, and so does --base-port; give one of them")
        addresses = read_hostfile(flags.hostfile, processes)
        if process is None and len(addresses) > 1:
            raise ConfigError(f"--hostfile needs -p: which of its lines, 0 to {len(addresses) - 1}, is this process?")
    else:
        addresses = _local_addresses(processes or 1, BASE_PORT if flags.base_port is None else flags.base_port)
    if process is not None and not 0 <= process < len(addresses):
        raise ConfigError(
            f"-p {process}: there {'is 1 process' if len(addresses) == 1 else f'are {len(addresses)} processes'}, "
            f"so -p is between 0 and {len(addresses) - 1}; -n sets their number"
        )
    joinable, by_hand = process is not None, process is not None or flags.hostfile is not None
    if len(addresses) == 1:
        process = 0
    return Config(threads, addresses, process, flags.secret_file, joinable, by_hand=by_hand)


def _joining(flags: argparse.Namespace) -> Config:
    """The configuration of a process that joins a running job."""
    processes, process, server = flags.processes or 1, flags.process, flags.join
    if server is None:
        raise ConfigError("--nn goes with --join: which process of the running job helps this one to join?")
    if process is None or process < processes:
        raise ConfigError(
            f"--join needs -p, the number of the new process: {processes} or more, since the job began with -n "
            f"{processes}, and one that it has not had"
        )
    if flags.nn is not None and flags.nn != process + 1:
        raise ConfigError(f"--nn {flags.nn}: with process {process} there are {process + 1} processes; leave --nn out")
    if not 0 <= server < process:
        raise ConfigError(f"--join {server}: process {process} joins with the help of one of 0 to {process - 1}")
    if not 1 <= flags.threads <= THREADS_MAX or not process < PROCESSES_MAX:
        raise ConfigError(f"a job has at most {PROCESSES_MAX} processes of at most {THREADS_MAX} threads")
    if flags.hostfile is not None:
        addresses = read_hostfile(flags.hostfile, None)
        if len(addresses) <= process:
            raise ConfigError(f"hostfile {flags.hostfile} has no line for process {process}; add its host:port")
    else:
        addresses = _local_addresses(process + 1, BASE_PORT if flags.base_port is None else flags.base_port)
    own = (addresses[process],)
    return Config(flags.threads, own, process, flags.secret_file, True, addresses[server], server, by_hand=True)


def read_hostfile(path: Path, processes: int | None) -> tuple[Address, ...]:
    """The addresses in a hostfile: line I is process I. Comments start with #; every process has an address."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the hostfile {path}: {error.strerror}") from error
    addresses: list[Address] = []
    lines = [line.split("#")[0].strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    while lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines):
        if not line:
            raise ConfigError(f"hostfile {path} has a hole: the line of process {number} is empty; write its host:port")
        addresses.append(_parse_address(line, number, path))
    repeated = [address for address in addresses if addresses.count(address) > 1]
    if repeated:
        host, port = repeated[0]
        raise ConfigError(f"hostfile {path} names {host}:{port} twice; each process needs an address of its own")
    if not addresses:
        raise ConfigError(f"hostfile {path} is empty; write one host:port per process")
    if processes is not None and len(addresses) != processes:
        raise ConfigError(
            f"hostfile {path} has {len(addresses)} addresses and -n says {processes} processes; make them agree"
        )
    return tuple(addresses)


def with_spawned(config: Config, spawned: Spawned) -> Config:
    """The configuration of a process that a launcher started."""
    config = replace(config, process=spawned.process, addresses=spawned.addresses, joinable=True, run=spawned.run)
    if spawned.server is None:
        return config
    server, address = spawned.server
    return replace(config, join=address, server=server)


def _local_addresses(processes: int, base_port: int) -> tuple[Address, ...]:
    if not 1 <= base_port <= 65_536 - processes:
        raise ConfigError(
            f"--base-port {base_port}: {processes} processes use ports {base_port} to {base_port + processes - 1}, "
            f"which must lie between 1 and 65535"
        )
    return tuple(("127.0.0.1", base_port + index) for index in range(processes))


def _parse_address(line: str, number: int, path: Path) -> Address:
    host, separator, port = line.rpartition(":")
    host = host.strip().removeprefix("[").removesuffix("]")
    if not separator or not host or not port.strip().isdigit() or not 1 <= int(port) <= 65_535:
        raise ConfigError(f"hostfile {path}: process {number} is {line!r}, not a host:port such as 10.0.0.7:2101")
    return host, int(port)


def parse(argv: Sequence[str], *, program: str | None = None) -> tuple[Config, list[str]]:
    """A configuration, and the arguments that are the program's own."""
    parser = argparse.ArgumentParser(prog=program, add_help=False, allow_abbrev=False, exit_on_error=False)
    add_flags(parser)
    try:
        flags, rest = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    return config_from_flags(flags), [argument for argument in rest if argument != "--"]


def usage() -> str:
    """What the cluster's flags are."""
    parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS)
    add_flags(parser)
    return parser.format_help()
