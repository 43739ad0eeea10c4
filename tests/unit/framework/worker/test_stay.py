"""Leaving that cannot be: it is said why, or given up when the job ends, and nobody waits for ever."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from framework.errors import GraphError
from framework.launch.config import Config
from operators import Input, Probe, Worker, execute, to_stream


def feed(worker: Worker, numbers: Input[int], probe: Probe) -> None:
    for number in range(20):
        numbers.send(number)
        numbers.advance_to(number + 1)
        worker.step_while(lambda: probe.less_than(numbers.time))
        time.sleep(0.005)


def test_the_last_worker_cannot_leave_and_goes_on():
    def main(worker: Worker) -> list[int]:
        numbers, probe = Input[int](), Probe()
        with worker.dataflow() as scope:
            seen = numbers.stream(scope).probe(probe).extract()
        with pytest.raises(GraphError, match="worker 0 cannot leave: it is the last one; stop the job instead"):
            worker.leave()
        feed(worker, numbers, probe)
        numbers.close()
        worker.complete()
        return seen.rows()

    assert execute(main) == [list(range(20))]


def test_who_waits_for_its_turn_to_leave_gives_up_when_the_job_ends():
    """As when the inputs have ended: the worker that feeds lets nobody in or out any more."""

    def main(worker: Worker) -> bool:
        numbers, probe = Input[int](), Probe()
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number).probe(probe)
        if worker.index == 0:
            worker.membership.close()
            feed(worker, numbers, probe)
        else:
            worker.leave()
        return worker.membership.gone

    assert execute(main, Config(threads=2)) == [False, False]


def test_a_worker_leaves_when_asked_to():
    def main(worker: Worker) -> bool:
        numbers, probe = Input[int](), Probe()
        with worker.dataflow() as scope:
            numbers.stream(scope).exchange(lambda number: number).probe(probe)
        if worker.index == 0:
            feed(worker, numbers, probe)
            return worker.membership.gone
        worker.ask_to_leave()
        return worker.stay()

    assert execute(main, Config(threads=2)) == [False, True]


def test_of_two_that_are_asked_to_leave_the_last_one_stays(caplog: pytest.LogCaptureFixture):
    def main(worker: Worker) -> bool:
        def until_refused() -> Iterator[int]:
            while worker.index == 0 and refusal not in caplog.text:
                yield 1

        with worker.dataflow() as scope:
            to_stream(scope, until_refused()).exchange(lambda number: number)
        if worker.index == 0:
            worker.step_while(lambda: not worker.membership.changing)  # until it is the other's turn
        worker.ask_to_leave()
        return worker.stay()

    refusal = "the last worker cannot leave; stop the job instead"
    with caplog.at_level(logging.INFO, "hailer"):
        assert execute(main, Config(threads=2)) == [False, True]


def test_who_keeps_keys_without_bins_stays_and_says_why(caplog: pytest.LogCaptureFixture):
    def main(worker: Worker) -> bool:
        numbers, probe = Input[int](), Probe()
        with worker.dataflow() as scope:
            pairs = numbers.stream(scope).map(lambda number: (number % 3, number))
            pairs.state_machine(lambda _, n, total: (total + n, []), initial=0).probe(probe)
        if worker.index == 0:
            feed(worker, numbers, probe)
            return worker.membership.gone
        worker.ask_to_leave()
        return worker.stay()

    with caplog.at_level(logging.INFO, "hailer"):
        assert execute(main, Config(threads=2)) == [False, False]
    assert (
        "worker 1 cannot leave: 'state_machine' keep their keys on the workers that the job began with" in caplog.text
    )
