"""Links between real processes: strangers at the door, peers that die, and a slow reader.

The other process runs `main` of this file as process 0 of a cluster of two; the test is process 1.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from framework.errors import PeerRefused, SecretMismatch
from framework.membership.members import WorkerId
from framework.net.endpoint import Endpoint
from framework.net.mesh import Mesh, start_mesh
from framework.net.tcp_link import OUTBOUND_BYTES_MAX
from framework.wire.credentials import Credentials
from framework.wire.framing import FRAME_BYTES_MAX
from framework.wire.handshake import ClientHandshake
from framework.wire.messages import Data, Goodbye, Lost
from framework.wire.purpose import WorkerLink
from tests.peers import receive

OURS = Credentials(bytes(range(32)))
ROOT = Path(__file__).parents[2]
ZERO, ONE = WorkerId(0), WorkerId(1)
LIMIT_S = 60
EXCHANGED = 100_000
PREAMBLE = b"HAILER\x00\x05"


@dataclass
class Cluster:
    """A peer process, our link to it, and what it has written to its log."""

    peer: subprocess.Popen[str]
    mesh: Mesh
    addresses: list[tuple[str, int]]
    log: list[str]
    reported: list[str]
    readers: list[threading.Thread]

    @property
    def endpoint(self) -> Endpoint:
        return self.mesh.endpoints[ONE]

    def echoes(self) -> bool:
        """Whether the link still works."""
        self.endpoint.send(ZERO, Data(0, 1, ["ping"]))
        self.endpoint.flush()
        return receive(self.endpoint, 1) == [Data(0, 1, ["ping"])]

    def stranger(self) -> socket.socket:
        connection = socket.create_connection(self.addresses[0])
        connection.settimeout(LIMIT_S)
        return connection

    def logged(self, text: str) -> bool:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if any(text in line for line in list(self.log)):
                return True
            self.endpoint.park(0.01)
        return False


def start(role: str) -> Cluster:
    own = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_server(("127.0.0.1", 0))
    addresses = [theirs.getsockname(), own.getsockname()]
    peer = subprocess.Popen(
        [sys.executable, __file__, role, json.dumps(addresses), str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    theirs.close()
    log: list[str] = []
    reported: list[str] = []
    readers = [threading.Thread(target=gather, args=pair) for pair in ((peer.stderr, log), (peer.stdout, reported))]
    for reader in readers:
        reader.start()
    try:
        mesh = start_mesh(1, 1, addresses, OURS, listener=own)
    except BaseException:
        peer.kill()
        peer.wait()
        raise
    return Cluster(peer, mesh, addresses, log, reported, readers)


def gather(stream: IO[str], lines: list[str]) -> None:
    with stream:
        lines.extend(stream)


def end(cluster: Cluster) -> str:
    """Part in friendship; what the peer had to report."""
    cluster.endpoint.send(ZERO, Goodbye())
    cluster.endpoint.flush()
    try:
        assert cluster.peer.wait(LIMIT_S) == 0, cluster.log
        for reader in cluster.readers:
            reader.join()
        return "".join(cluster.reported)
    finally:
        release(cluster)


def release(cluster: Cluster) -> None:
    cluster.peer.kill()
    cluster.peer.wait()
    for reader in cluster.readers:
        reader.join()
    cluster.mesh.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = start("echo")
    try:
        yield cluster
        assert cluster.echoes()
        end(cluster)
    finally:
        release(cluster)


def heard_until_the_end(connection: socket.socket) -> bytes:
    heard = b""
    try:
        while data := connection.recv(4096):
            heard += data
    except ConnectionResetError:
        pass
    return heard


@pytest.mark.parametrize(
    ("said", "line", "answer"),
    [
        (b"\x16\x03\x01" + os.urandom(1000), "it encrypts this connection, and this end does not", PREAMBLE),
        (b"GET / HTTP/1.1\r\n" + os.urandom(1000), "does not speak this protocol", b""),
        ((FRAME_BYTES_MAX + 1).to_bytes(4, "big") + b"x" * 1000, "does not speak this protocol", b""),
        (PREAMBLE + b"n" * 32 + b"\xff" * 2_000, "spoke out of turn", b""),
    ],
)
def test_garbage_is_cut_off_and_the_link_goes_on(cluster: Cluster, said: bytes, line: str, answer: bytes) -> None:
    with cluster.stranger() as stranger:
        stranger.sendall(said)
        assert heard_until_the_end(stranger) == answer
    assert cluster.logged(line)
    assert cluster.echoes()


def test_a_slow_handshake_is_cut_off_at_its_deadline(cluster: Cluster) -> None:
    with cluster.stranger() as silent, cluster.stranger() as halfway:
        halfway.sendall(PREAMBLE + b"n" * 32)
        begin = time.monotonic()
        assert cluster.echoes()
        assert heard_until_the_end(silent) == b""
        assert len(heard_until_the_end(halfway)) == 72
        assert 3 < time.monotonic() - begin < 15
    assert cluster.logged("took more than 5 s")


def handshake(cluster: Cluster, credentials: Credentials = OURS) -> tuple[bytes, bytes]:
    """Go through the handshake by hand; what we sent first and second. Ends in a refusal: the link exists."""
    client = ClientHandshake(credentials, os.urandom(32), WorkerLink(2, 1, ONE, ZERO))
    with cluster.stranger() as connection:
        connection.sendall(client.opening)
        answer, _ = client.receive(connection.recv(4096))
        connection.sendall(answer)
        with pytest.raises(PeerRefused, match="worker 1 has a link to worker 0 already"):
            client.receive(connection.recv(4096))
    return client.opening, answer


def test_a_wrong_secret_gets_nowhere(cluster: Cluster) -> None:
    with pytest.raises(SecretMismatch):
        handshake(cluster, Credentials(b"w" * 32))
    with cluster.stranger() as stranger:
        stranger.sendall(PREAMBLE + b"n" * 32)
        stranger.recv(4096)
        stranger.sendall(b"p" * 32 + b"\0" * 4)
        assert heard_until_the_end(stranger) == b""
    assert cluster.logged("does not know the cluster's secret")


def test_a_replayed_handshake_gets_nowhere(cluster: Cluster) -> None:
    opening, answer = handshake(cluster)
    with cluster.stranger() as stranger:
        stranger.sendall(opening)
        assert len(stranger.recv(4096)) == 72
        stranger.sendall(answer)
        assert heard_until_the_end(stranger) == b""
    assert cluster.logged("does not know the cluster's secret")


def test_a_reflected_proof_gets_nowhere(cluster: Cluster) -> None:
    with cluster.stranger() as victim, cluster.stranger() as oracle:
        victim.sendall(PREAMBLE + b"n" * 32)
        challenge = victim.recv(4096)
        oracle.sendall(PREAMBLE + challenge[8:40])
        victim.sendall(oracle.recv(4096)[40:] + b"\0" * 4)
        assert heard_until_the_end(victim) == b""
    assert cluster.logged("does not know the cluster's secret")


def test_a_killed_peer_is_lost_within_a_second() -> None:
    cluster = start("echo")
    assert cluster.echoes()
    begin = time.monotonic()
    os.kill(cluster.peer.pid, signal.SIGKILL)
    (lost,) = receive(cluster.endpoint, 1)
    assert time.monotonic() - begin < 1
    assert isinstance(lost, Lost)
    assert "worker 0 at 127.0.0.1:" in lost.detail
    release(cluster)


def test_both_directions_flow_although_one_side_is_slow() -> None:
    cluster = start("slow")
    try:
        figures = exchange(cluster.endpoint, ZERO, slow=False)
        report = json.loads(end(cluster))
    finally:
        release(cluster)
    for side in (figures, report):
        assert side["in_order"]
        assert side["received"] == EXCHANGED
        assert side["outbound_bytes_max"] < OUTBOUND_BYTES_MAX + 64 * 1024
    assert figures["congested"]
    assert report["grown_kb"] < 100_000


def exchange(endpoint: Endpoint, peer: WorkerId, *, slow: bool) -> dict[str, Any]:
    """Send and receive all messages at once, pausing while congested. A slow side dawdles before each early read."""
    sent = received = outbound_bytes_max = loops = 0
    in_order, congested = True, False
    rows = [("word" * 10, number) for number in range(20)]
    begin_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while sent < EXCHANGED or received < EXCHANGED:
        while sent < EXCHANGED and not endpoint.congested():
            for _ in range(16):
                endpoint.send(peer, Data(0, sent, rows))
                sent += 1
            endpoint.flush()
            if slow:
                break
        congested = congested or endpoint.congested()
        outbound_bytes_max = max(outbound_bytes_max, *(link._outbound_bytes for link in endpoint._tcp.values()))
        loops += 1
        if slow and loops < 100:
            time.sleep(0.01)
        for _, message in endpoint.receive():
            in_order = in_order and isinstance(message, Data) and message.time == received and message.container == rows
            received += 1
        endpoint.flush()
        if endpoint.congested() or sent == EXCHANGED > received:
            endpoint.park(LIMIT_S)
    assert endpoint.drain(LIMIT_S)
    return {
        "received": received,
        "in_order": in_order,
        "congested": congested,
        "outbound_bytes_max": outbound_bytes_max,
        "grown_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin_kb,
    }


def main(role: str, addresses: str, descriptor: str) -> None:
    """The peer: worker 0, which echoes what it hears, or exchanges slowly."""
    listener = socket.socket(fileno=int(descriptor))
    mesh = start_mesh(0, 1, [tuple(address) for address in json.loads(addresses)], OURS, listener=listener)
    endpoint = mesh.endpoints[ZERO]
    if role == "slow":
        print(json.dumps(exchange(endpoint, ONE, slow=True)))
    done = False
    while not done:
        endpoint.park(None)
        for peer, message in endpoint.receive():
            done = done or isinstance(message, Goodbye | Lost)
            if not isinstance(message, Lost):
                endpoint.send(peer, message)
        endpoint.flush()
    endpoint.drain(5)
    mesh.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
