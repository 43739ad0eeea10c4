"""What is counted while workers change, however seldom somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import WorkerId
from framework.worker.worker import Worker
from operators import Flow, Job
from operators.control import worker_rescale
from operators.control.worker_rescale import RescaleMeter
from operators.job.run_loop import feed_from, run_on_worker
from routing.bins import BinId
from routing.commands import Move
from routing.registry import commanded_on

EPOCHS_MAX = 100_000
MOVED = {BinId(0), BinId(2)}


@pytest.mark.parametrize("rare", ["LISTEN_S", "POLL_S"])
def test_bins_that_moved_since_the_last_poll_are_counted_when_somebody_asks(rare: str, monkeypatch: pytest.MonkeyPatch):
    """Be it that nobody asked for long, or that the last step completed between two polls: who hears that all bins have
    arrived hears of all of them."""
    monkeypatch.setattr(worker_rescale, rare, {"LISTEN_S": 0.0, "POLL_S": 3600.0}[rare])
    job, ended = Job("counts"), list[bool]()

    @job.dataflow
    def counts(flow: Flow) -> None:
        pairs = flow.input("words").map(lambda word: (word, 1))
        flow.output("counts", pairs.stateful_state_machine(lambda _, n, total: (total + n, []), initial=0, bins=8))

    def main(worker: Worker) -> object:
        flow = job.build(worker, lambda _: lambda epoch, some: None)
        meters: list[RescaleMeter] = []

        def words() -> Iterator[list[str]]:
            [operator] = commanded_on(worker)
            target = None
            for epoch in range(EPOCHS_MAX):
                if flow.commanding and target is None and operator.table.ready:
                    meters.append(RescaleMeter(flow))
                    before = list(operator.table.owners)
                    target = [WorkerId(1 - was if bin_id in MOVED else was) for bin_id, was in enumerate(before)]
                    flow.command(*(Move(bin_id, target[bin_id]) for bin_id in MOVED))
                if ended or (target is not None and list(operator.table.owners) == target):
                    ended.append(True)
                    return
                yield [f"w{epoch % 40}"] if flow.commanding else []

        run_on_worker(flow, partial(feed_from, {"words": words()}))
        return meters[0].cost().bins_moved if meters else None

    assert execute(main, Config(threads=2))[0] == len(MOVED)
