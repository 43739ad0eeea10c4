"""One-record epochs from worker 0 to worker 1 and back; prints the latencies' p50 and p99 in microseconds."""

from __future__ import annotations

import json
import time

from operators import Input, Probe, Worker, execute_from_args

EPOCHS, WARM_UP = 4000, 500


def main(worker: Worker) -> None:
    numbers, probe = Input[int](), Probe()
    with worker.dataflow("round trip") as scope:
        numbers.stream(scope).exchange(lambda _: 1).exchange(lambda _: 0).probe(probe)
    if worker.index != 0:
        return
    latencies_s = []
    for number in range(EPOCHS):
        started_s = time.perf_counter()
        numbers.send(number)
        numbers.advance_to(number + 1)
        worker.step_while(lambda: probe.less_than(numbers.time))
        latencies_s.append(time.perf_counter() - started_s)
    ranked = sorted(latencies_s[WARM_UP:])
    print(json.dumps([1e6 * ranked[len(ranked) // 2], 1e6 * ranked[len(ranked) * 99 // 100]]))


if __name__ == "__main__":
    execute_from_args(main)
