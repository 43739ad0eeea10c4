"""Many epochs through an exchange; prints the largest accumulated progress state seen early on and at the end."""

from __future__ import annotations

import json
import sys

from operators import Input, Probe, Worker, execute_from_args

WINDOW = 100


def main(worker: Worker) -> None:
    numbers, probe = Input[int](), Probe()
    with worker.dataflow("epochs") as scope:
        numbers.stream(scope).exchange(lambda number: number).map(lambda number: number + 1).probe(probe)
    sizes: dict[int, int] = {}
    for epoch in range(int(worker.args[0])):
        numbers.send(epoch)
        numbers.advance_to(epoch + 1)
        worker.step_while(lambda: probe.less_than(numbers.time))
        state = worker.progress_states()[0]
        size = len(state.pointstamps) + len(state.next_in)
        sizes[epoch // WINDOW] = max(size, sizes.get(epoch // WINDOW, 0))
    if worker.index == 0:
        sys.stdout.write(json.dumps([sizes[0], sizes[max(sizes)]]) + "\n")


if __name__ == "__main__":
    execute_from_args(main)
