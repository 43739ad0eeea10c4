"""Operators on bins are listed per worker while they run."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from framework.errors import GraphError
from operators import ControlInput, Input, Probe, Worker, execute
from routing.bins import Bins
from routing.registry import operators_on


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def test_an_operator_is_listed_with_its_owners_and_keys_until_it_ends():
    listed: list[Any] = []

    def main(worker: Worker):
        words, control, probe = Input[tuple[str, int]](), ControlInput(), Probe()
        assert operators_on(worker) == []
        with worker.dataflow() as scope:
            stream, commands = words.stream(scope), control.stream(scope).broadcast()
            stream.stateful_state_machine(count, initial=0, control=commands, bins=4, name="counts").probe(probe)
            stream.distribute(key=str, control=commands, bins=2, name="spread").probe(probe)
            stream.stateful_state_machine(count, initial=0, name="fixed by hash").probe(probe)
        words.send_batch([(word, 1) for word in ("tea", "milk", "tea", "water")])
        for input in (words, control):
            input.advance_to(1)
        worker.step_while(lambda: probe.less_than(1))
        counts, spread = operators_on(worker)
        listed.append((counts.name, counts.bins, counts.table.owners, sum(counts.keys_per_bin().values())))
        listed.append((spread.name, spread.bins, spread.table.owners, spread.keys_per_bin()))
        assert counts.path != spread.path
        words.close()
        control.close()
        worker.complete()
        assert operators_on(worker) == []

    execute(main)
    assert listed == [("counts", Bins(4), [0, 0, 0, 0], 3), ("spread", Bins(2), [0, 0], {})]


def test_a_dataflow_that_is_not_completed_leaves_nothing():
    def main(worker: Worker):
        def build(scope):
            stream, control = Input[tuple[str, int]]().stream(scope), ControlInput()
            stream.stateful_state_machine(count, initial=0, control=control.stream(scope).broadcast())
            raise GraphError("no more")

        with pytest.raises(GraphError, match="no more"), worker.dataflow() as scope:
            build(scope)
        assert operators_on(worker) == []

    execute(main)


def test_a_worker_that_has_gone_is_not_kept():
    workers = []

    def main(worker: Worker):
        workers.append(ref(worker))
        words, control = Input[tuple[str, int]](), ControlInput()
        with worker.dataflow() as scope:
            commands = control.stream(scope).broadcast()
            words.stream(scope).stateful_state_machine(count, initial=0, control=commands)

    execute(main)
    gc.collect()
    assert [worker() for worker in workers] == [None]
