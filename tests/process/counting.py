"""A program for tests of rescaling: one worker feeds words without pause, the others stay until asked to leave.

Every count that a worker sends goes to its own file in a directory, and what was fed to `sent.json` there, at the end:
when a file `stop` appears. While there is a file `rest`, nothing is fed. Flags say what a process is to do wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from framework.membership.driver import Membership
from framework.membership.effects import Effect, Phase
from framework.membership.joiner import Joiner
from framework.membership.members import Address, WorkerId
from framework.membership.messages import Enlist
from framework.net import link_socket
from framework.net.endpoint import Endpoint
from framework.wire import handshake
from framework.wire.messages import Message
from operators import BinOptions, ControlInput, Input, Probe, Steward, Worker, execute_from_args

POLL_S = 0.1
WORDS = [f"w{number}" for number in range(200)]


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def main(worker: Worker) -> None:
    flags = read_flags(worker.args)
    lines, control, probe = Input[str]("lines"), ControlInput(), Probe()
    with (flags.directory / f"counts-{worker.index}").open("w") as file:

        def write(_: object, rows: list[tuple[str, int]]) -> None:
            file.writelines(f"{word} {total}\n" for word, total in rows)
            if flags.slow_s:
                time.sleep(flags.slow_s)

        with worker.dataflow("counting") as scope:
            words = lines.stream(scope).deal().flat_map(str.split)
            if flags.other_program:
                words = words.filter(lambda word: word != "w0")
            words.map(lambda word: (word, 1)).stateful_state_machine(
                count, initial=0, control=control.stream(scope).broadcast(), bins=BinOptions(flags.bins)
            ).inspect_batch(write).probe(probe)
        worker.bootstrap()
        print(f"worker {worker.index} is up", flush=True)
        if worker.index != flags.commander:
            worker.stay()
        else:
            feed(worker, flags, lines, control, probe)


def feed(worker: Worker, flags: argparse.Namespace, lines: Input[str], control: ControlInput, probe: Probe) -> None:
    dice, sent, steward = random.Random(0), Counter[str](), Steward(worker, control)
    while not (flags.directory / "stop").exists():
        rows = [dice.choices(WORDS, k=5) for _ in range(10)]
        sent.update(word for row in rows for word in row)
        lines.send_batch([" ".join(row) for row in rows])
        lines.advance_to(lines.time + 1)
        steward.advance_to(lines.time)
        worker.step()
        steward.step_while(lambda: probe.less_than(lines.time - flags.ahead))
        if (flags.directory / "rest").exists():
            steward.step_while(lambda: probe.less_than(lines.time))
            print("all is quiet", flush=True)
            while (flags.directory / "rest").exists():
                worker.step_or_park(POLL_S)
    lines.close()
    steward.see_off()
    worker.complete()
    (flags.directory / "sent.json").write_text(json.dumps(sent))


def die_at(phase: str) -> None:
    """Have this process, which joins, killed when it comes to a phase, with all told that it had to tell before.

    "enlisted": when it hears that all members hold records back for it.
    """
    enter, reach, receive = Membership._enter, Endpoint.reach, Joiner.receive

    def entering(self: Membership, now: Phase) -> None:
        enter(self, now)
        if now.value == phase:
            self._stepper.transport.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def reaching(self: Endpoint, peers: Mapping[WorkerId, Address]) -> None:
        if phase == Phase.LINKING.value and len(peers) > 1:  # the first is the server alone
            reach(self, dict(list(peers.items())[:2]))
            os.kill(os.getpid(), signal.SIGKILL)
        reach(self, peers)

    def receiving(self: Joiner, sender: WorkerId, message: Message) -> list[Effect] | None:
        if phase == "enlisted" and isinstance(message, Enlist):
            os.kill(os.getpid(), signal.SIGKILL)
        return receive(self, sender, message)

    Joiner.receive = receiving  # type: ignore[method-assign]
    Membership._enter = entering  # type: ignore[method-assign, assignment]
    Endpoint.reach = reaching  # type: ignore[method-assign]


def read_flags(args: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--commander", type=int, default=0)
    parser.add_argument("--bins", type=int, default=32)
    parser.add_argument("--ahead", type=int, default=8)
    parser.add_argument("--slow-s", type=float, default=0)
    parser.add_argument("--other-program", action="store_true")
    parser.add_argument("--other-version", action="store_true")
    parser.add_argument("--die", default="")
    parser.add_argument("--encrypted", action="store_true")
    return parser.parse_args(args)


if __name__ == "__main__":
    early = argparse.ArgumentParser()
    early.add_argument("--die", default="")
    early.add_argument("--other-version", action="store_true")
    early.add_argument("--encrypted", action="store_true")
    known, _ = early.parse_known_args()
    if known.encrypted:
        link_socket.is_local = lambda connection: False
    if known.die:
        die_at(known.die)
    if known.other_version:
        handshake._PREAMBLE = handshake.MAGIC + (handshake.VERSION + 1).to_bytes(2, "big")
    execute_from_args(main)
