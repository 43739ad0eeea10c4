"""What peer-to-peer progress costs, and what a log between the workers would: decision 0007."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from statistics import median
from threading import Thread
from time import perf_counter

from framework.simulation.cluster import SimulatedCluster
from framework.wire.framing import FrameReader, frame
from framework.wire.messages import Progress, encode
from framework.worker.worker import Worker
from operators import Input
from tests.bench.harness import Bar, bench
from tests.bench.harness import Progress as Tell
from tests.bench.programs import run_program

EPOCHS = 50
TRIPS = 5_000


@bench("progress-fan-out")
def progress_fan_out(tell: Tell) -> Iterator[Bar]:
    """Messages and bytes of progress per epoch and worker, WordCount over TCP, as the workers become more."""
    for workers in (2, 4, 8):
        tell(f"{workers} workers")
        _, sent_bytes, messages = (
            sum(column) for column in zip(*run_program("traffic.py", f"-n{workers}"), strict=True)
        )
        per_epoch = messages / EPOCHS / workers
        note = f"{sent_bytes / EPOCHS / workers:.0f} bytes; through a log {per_epoch / (workers - 1):.1f} to write"
        yield Bar(
            f"progress messages per epoch and worker, {workers} workers",
            per_epoch,
            4.0 * workers,
            "<=",
            unit="",
            note=note,
        )


@bench("hop")
def hop(tell: Tell) -> Iterator[Bar]:
    """One batch of progress over a TCP link on this machine, framed and decoded: half of a round trip."""
    tell(f"{TRIPS} round trips")
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    listener.close()
    for end in near, far:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    echo = Thread(target=_echo, args=(far,))
    echo.start()
    body = frame(encode(Progress(0, 1, ((0, 1, 1), (0, 0, -1), (3, 0, 20)))))
    reader, spent_us = FrameReader(), []
    for _ in range(TRIPS):
        began_s = perf_counter()
        near.sendall(body)
        while not list(reader.feed(near.recv(65_536))):
            pass
        spent_us.append(1e6 * (perf_counter() - began_s) / 2)
    near.close()
    echo.join()
    yield Bar("a batch of progress over one loopback link, p50", median(spent_us), 500.0, "<=", unit="us")


def _echo(end: socket.socket) -> None:
    reader = FrameReader()
    with end:
        while data := end.recv(65_536):
            for body in reader.feed(data):
                end.sendall(frame(bytes(body)))


@bench("bootstrap-size")
def bootstrap_size(tell: Tell) -> Iterator[Bar]:
    """Bytes of the state of progress that a joiner is sent, WordCount on eight workers in mid-stream."""
    sizes: list[int] = []

    def program(worker: Worker) -> Iterator[None]:
        lines = Input[str]("lines")
        with worker.dataflow() as scope:
            words = lines.stream(scope).flat_map(str.split).map(lambda word: (word, 1))
            words.state_machine(lambda _, n, total: (total + n, [total + n]), initial=0)
        for epoch in range(EPOCHS):
            lines.send("to be or not to be")
            lines.advance_to(epoch + 1)
            yield
            sizes.append(sum(len(encode(state)) for state in worker.membership.dataflow_state.scope_states()))

    tell("eight simulated workers")
    SimulatedCluster(workers=8, seed=1).run(program)
    yield Bar(
        "state of progress sent to a joiner, largest",
        max(sizes),
        100_000,
        "<=",
        unit="bytes",
        note=f"median {median(sizes):g}",
    )
