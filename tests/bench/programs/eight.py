"""Every worker sends to every worker; prints what each one received."""

from __future__ import annotations

import sys

from operators import Input, Probe, Worker, execute_from_args

EPOCHS = 20


def main(worker: Worker) -> None:
    numbers, probe, seen = Input[int](), Probe(), list[int]()
    with worker.dataflow("all to all") as scope:
        numbers.stream(scope).exchange(lambda number: number).inspect(seen.append).probe(probe)
    for epoch in range(EPOCHS):
        for number in range(worker.peers):
            numbers.send(number)
        numbers.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(numbers.time))
    assert seen == [worker.index] * worker.peers * EPOCHS, seen
    sys.stdout.write(f"{len(seen)}\n")


if __name__ == "__main__":
    execute_from_args(main)
