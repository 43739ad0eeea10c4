"""Words counted by two workers for so many epochs, with or without the machinery of joins.

    python tests/bench/programs/steady.py -w2 (rescalable | fixed) EPOCHS

`fixed` takes out what workers do so that others can join them: they ask of no message whether it concerns a join, of no
step whether the members may change, and keep no account of what their outputs hold.
"""

from __future__ import annotations

import sys
from functools import partial
from random import Random
from typing import Any

from framework.dataflow.handle import OutputHandle
from framework.membership.driver import Membership
from framework.progress.order import Time
from operators import ControlInput, Input, Probe, Worker, execute_from_args

WORDS = 1_000


def fix_membership() -> None:
    """Take the machinery out."""

    def change_capability(output: OutputHandle, time: Time, delta: int) -> None:
        output._internal.update(time, delta)
        if not output._operator.running:
            output._operator.activate()

    OutputHandle.change_capability = change_capability  # type: ignore[method-assign, assignment]
    Membership.receive = lambda self, sender, message: False  # type: ignore[method-assign]
    Membership.end_step = lambda self: None  # type: ignore[method-assign]


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def main(worker: Worker) -> None:
    words, control, probe = Input[Any]("words"), ControlInput(), Probe()
    with worker.dataflow("steady") as scope:
        (
            words.stream(scope)
            .stateful_state_machine(count, initial=0, control=control.stream(scope).broadcast())
            .probe(probe)
        )
    control.close()
    dice = Random(worker.index)
    some = [[(f"w{dice.randrange(10_000)}", 1) for _ in range(WORDS)] for _ in range(10)]
    for number in range(int(worker.args[-1])):
        words.send_batch(some[number % len(some)])
        words.advance_to(number + 1)
        worker.step_while(partial(probe.less_than, number - 1))


if __name__ == "__main__":
    if "fixed" in sys.argv:
        fix_membership()
    execute_from_args(main)
