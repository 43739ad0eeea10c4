"""Machines of their own, as far as the network can tell: network namespaces on a bridge, or on a wire with a delay.

They are made for the length of a block, and need what only root, or CAP_NET_ADMIN and CAP_SYS_ADMIN, may do: who calls
gets `NoHosts`, with the reason, where that is missing. Processes on them share the file system.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
CLONE_NEWNET, TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x40000000, 0x400454CA, 0x0001, 0x1000
QUEUE_PACKETS, PACKET_BYTES_MAX, DESTINATION = 10_000, 2_048, slice(16, 20)

_numbers = count()


class NoHosts(Exception):
    """Why there can be no hosts."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Some hosts, by number from 0. They have no way to the world."""

    name: str
    number: int

    def address(self, host: int) -> str:
        """Where a host is."""
        return f"10.77.0.{host + 1}"

    def on(self, host: int) -> list[str]:
        """What runs a command on a host, when put before it: in the same process."""
        return ["ip", "netns", "exec", self._namespace(host)]

    def connect_s(self, host: int, address: tuple[str, int]) -> float:
        """How long a host takes to connect to who listens at an address: one round trip, and what the machine adds."""
        connect = f"from socket import create_connection as c; from time import monotonic as t; b = t(); c({address}); "
        timed = [*self.on(host), sys.executable, "-c", f"{connect}print(t() - b)"]
        return float(subprocess.run(timed, check=True, capture_output=True, text=True).stdout)

    def take_down(self, host: int) -> None:
        """Take a host off the net: it notices that nothing can be sent; nobody else is told."""
        _ip("-n", self._namespace(host), "link", "set", "wire", "down")

    def cut(self, host: int) -> None:
        """Have what a host sends, and what is sent to it, get lost: nobody is told."""
        _ip("-n", self._switch, "link", "set", f"port{host}", "nomaster")

    @property
    def _switch(self) -> str:
        return f"{self.name}-switch"

    def _namespace(self, host: int) -> str:
        return f"{self.name}-{host}"

    def _namespaces(self) -> list[str]:
        return [self._switch, *map(self._namespace, range(self.number))]

    def _plug_in(self, host: int) -> None:
        there, port = self._namespace(host), f"port{host}"
        _ip("-n", there, "link", "add", "name", "wire", "type", "veth", "peer", "name", port, "netns", self._switch)
        _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")

    def _give_address(self, host: int) -> None:
        there = self._namespace(host)
        _ip("-n", there, "link", "set", "lo", "up")
        _ip("-n", there, "address", "add", f"{self.address(host)}/24", "dev", "wire")
        _ip("-n", there, "link", "set", "wire", "up")


Made: TypeAlias = Callable[[AbstractContextManager[Hosts]], Hosts]
"""How a test enters hosts: it is skipped where there can be none."""


@contextmanager
def hosts(number: int) -> Iterator[Hosts]:
    """So many hosts, at one switch."""
    with _namespaces(number) as made:
        _ip("-n", made._switch, "link", "add", "name", "bridge", "type", "bridge")
        _ip("-n", made._switch, "link", "set", "bridge", "up")
        for host in range(number):
            made._plug_in(host)
            made._give_address(host)
        yield made


@contextmanager
def distant_hosts(number: int, delay_ms: float) -> Iterator[Hosts]:
    """So many hosts, from each of which a packet takes so long to each other one."""
    with _namespaces(number) as made:
        for host in range(number):
            there = made._namespace(host)
            _ip("-n", there, "tuntap", "add", "mode", "tun", "name", "wire")
            _ip("-n", there, "link", "set", "wire", "txqueuelen", str(QUEUE_PACKETS))
            made._give_address(host)
        addresses = (f"{made._namespace(host)}={made.address(host)}" for host in range(number))
        wire = subprocess.Popen(
            [sys.executable, "-m", "tests.hosts", str(delay_ms), *addresses], cwd=ROOT, stdout=subprocess.PIPE
        )
        try:
            assert wire.stdout is not None
            if wire.stdout.readline() != b"ready\n":
                raise NoHosts("the wire between them has failed")
            yield made
        finally:
            wire.kill()
            wire.communicate()


@contextmanager
def _namespaces(number: int) -> Iterator[Hosts]:
    made = Hosts(f"hailer-{os.getpid()}-{next(_numbers)}", number)
    _sweep()
    try:
        for namespace in made._namespaces():
            _ip("netns", "add", namespace)
        yield made
    finally:
        for namespace in made._namespaces():
            with suppress(NoHosts):
                _ip("netns", "del", namespace)


def _sweep() -> None:
    """Remove what was left by processes that were killed."""
    for path in Path("/run/netns").glob("hailer-*"):
        if not Path("/proc", path.name.split("-")[1]).exists():
            with suppress(NoHosts):  # another one was faster
                _ip("netns", "del", path.name)


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoHosts("there is no `ip` (Debian and Ubuntu: apt-get install iproute2)") from None
    except subprocess.CalledProcessError as error:
        raise NoHosts(f"`ip {' '.join(arguments)}` failed: {error.stderr.strip()}") from None


def carry(delay_s: float, ends: dict[int, bytes]) -> None:
    """Take each packet to the end that has its address, after a delay; for ever. The ends are TUN devices."""
    end_of = {address: end for end, address in ends.items()}
    under_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        left_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        readable, _, _ = select.select(list(ends), [], [], left_s)
        due_s = time.monotonic() + delay_s
        for end in readable:
            with suppress(BlockingIOError):
                while True:
                    packet = os.read(end, PACKET_BYTES_MAX)
                    if packet[DESTINATION] in end_of:
                        under_way.append((due_s, end_of[packet[DESTINATION]], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, packet = under_way.popleft()
            os.write(end, packet)


def _device_in(namespace: str) -> int:
    """The near end of the `wire` in a namespace, into which this process goes."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN | IFF_NO_PI))
    return device


def main(delay_ms: str, *places: str) -> None:
    """The process that is the wire."""
    named = dict(place.split("=") for place in places)
    ends = {_device_in(name): bytes(map(int, address.split("."))) for name, address in named.items()}
    print("ready", flush=True)
    carry(float(delay_ms) / 1000, ends)


if __name__ == "__main__":
    main(*sys.argv[1:])
