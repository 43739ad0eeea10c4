"""Ten numbers, each seen by the worker it is exchanged to.

    python examples/hello.py -n2 -w1 -p0     # in one terminal
    python examples/hello.py -n2 -w1 -p1     # in another

While they run, a third process joins them; it feeds no numbers, and sees those that fall to it:

    python examples/hello.py -n2 -w1 -p2 --join 0 --nn 3

Worker 0 sends a number a second; an argument sets another pause, as in `python examples/hello.py -n2 0.1`.
"""

from __future__ import annotations

import time

from hailer import Input, Probe, Worker, execute_from_args


def main(worker: Worker) -> None:
    pause_s = float(worker.args[0]) if worker.args else 1.0
    numbers, probe = Input[int](), Probe()
    with worker.dataflow("hello") as scope:
        (
            numbers.stream(scope)
            .exchange(lambda number: number)
            .inspect(lambda number: print(f"worker {worker.index}: seen {number}", flush=True))
            .probe(probe)
        )

    if worker.bootstrap():
        return
    for number in range(10):
        if worker.index == 0:
            time.sleep(pause_s)
            numbers.send(number)
        numbers.advance_to(number + 1)
        worker.step_while(lambda: probe.less_than(numbers.time))


if __name__ == "__main__":
    execute_from_args(main)
