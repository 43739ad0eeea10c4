"""Commands are sent at an epoch, unless somebody who leaves would miss them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from framework.errors import GraphError
from framework.membership.members import WorkerId
from framework.simulation.cluster import SimulatedCluster
from framework.worker.worker import Worker
from operators import BinOptions, ControlInput, Input
from routing.bins import BinId
from routing.commands import Configuration

LEAVER = 2


def count(key: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(key, total + n)]


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_commands_wait_while_a_leaver_has_records_that_they_concern(seed: int, closes: bool):
    """Else two records of one epoch and key would go to two workers. What still waits when it closes is dropped."""
    cluster = SimulatedCluster(workers=3, seed=seed)
    counts, told = Counter[Any](), list[Any]()

    def program(worker: Worker) -> Iterator[None]:
        records, control = Input[tuple[str, int]]("records"), ControlInput()
        with worker.dataflow() as scope:
            options = BinOptions(1, report=told.append if worker.id == 0 else lambda _: None)
            commands = control.stream(scope).broadcast()
            counted = records.stream(scope).stateful_state_machine(count, initial=0, control=commands, bins=options)
            counted.inspect(lambda row: counts.update([row]))
        yield
        if worker.id:
            control.close()
            if worker.id == LEAVER:
                records.advance_to(5)
                records.send(("tea", 1))
            records.close()
            while worker.id == LEAVER and not worker.membership.gone:
                if not worker.membership.leaving:
                    try:
                        worker.membership.begin_leave()
                    except GraphError:
                        pass
                yield
            return
        control.retire(LEAVER)
        for each in (control, records):
            each.advance_to(5)
        while not worker.draining:
            yield
        records.send(("tea", 1))
        assert (control.move(0, 1), control.holds, control.owes) == (1, True, False)
        control.advance_to(6)
        records.close()
        while worker.draining and not closes:
            yield
        if not closes:
            assert (control.move(0, 0), control.owes) == (2, True), "one after the other"
            for epoch in (7, 8):
                control.advance_to(epoch)
            assert not control.holds
        control.close()

    cluster.run(program, moves_max=20_000)
    assert counts == {("tea", 1): 1, ("tea", 2): 1}
    moves = [outcome for outcome in told if isinstance(outcome, Configuration)]
    sent = [Configuration(6, 1, {BinId(0): WorkerId(1)}), Configuration(7, 2, {BinId(0): WorkerId(0)})]
    assert moves == ([] if closes else sent)
