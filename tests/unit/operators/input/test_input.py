"""`Input`: records from outside the dataflow, which are sent no faster than it takes them."""

from __future__ import annotations

from threading import Barrier
from typing import Any

import pytest

from framework.dataflow.handle import ROWS_PER_CONTAINER
from framework.errors import GraphError, InputClosed, TimeWentBackwards
from framework.launch.config import Config
from framework.launch.execute import execute
from framework.membership.members import Members, WorkerId
from framework.simulation.cluster import SimulatedCluster
from framework.simulation.network import Network, SimulatedTransport
from framework.worker.worker import Worker
from operators import Extracted, Input, Probe
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers


def test_records_are_sent_at_the_current_epoch():
    def main(worker):
        words = Input[str]()
        with worker.dataflow() as scope:
            result = words.stream(scope).extract()
        words.send("a")
        words.send("b")
        words.advance_to(2)
        words.send_batch(["c", "d"])
        words.send("e")
        assert (words.time, words.closed) == (2, False)
        words.close()
        words.close()
        assert words.closed
        return result

    [result] = execute(main)
    assert result.by_time() == {0: ["a", "b"], 2: ["c", "d", "e"]}


def test_the_order_of_single_records_and_batches():
    def main(worker):
        words = Input[str]()
        with worker.dataflow() as scope:
            result = words.stream(scope).extract()
        words.send("a")
        words.send_batch(["b"])
        words.send("c")
        return result

    [result] = execute(main)
    assert result.rows() == ["a", "b", "c"]


def test_the_probe_follows():
    def main(worker):
        words, probe = Input[str](), Probe()
        with worker.dataflow() as scope:
            result = words.stream(scope).probe(probe).extract()
        for epoch in range(3):
            words.send(str(epoch))
            words.advance_to(epoch + 1)
            worker.step_while(lambda: probe.less_than(words.time))
            assert result.rows() == [str(earlier) for earlier in range(epoch + 1)]
        return None

    execute(main)


def test_sending_much_steps_the_worker():
    def main(worker):
        numbers = Input[int]()
        with worker.dataflow() as scope:
            result = numbers.stream(scope).extract()
        for number in range(ROWS_PER_CONTAINER):
            assert worker.steps == 0
            numbers.send(number)
        assert worker.steps == 1
        assert result.rows() == list(range(ROWS_PER_CONTAINER))

    execute(main)


def test_sending_much_hands_others_their_shares_before_this_worker_works_on_its_own():
    """Each of two waits in its own function for the other."""
    both = Barrier(2, timeout=10)

    def main(worker):
        numbers = Input[int]()
        with worker.dataflow() as scope:
            numbers.stream(scope).deal().inspect_batch(lambda _, rows: both.wait())
        if worker.index == 0:
            numbers.send_batch([0] * ROWS_PER_CONTAINER)

    execute(main, Config(threads=2))


def test_back_in_time():
    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            words.stream(scope)
        words.advance_to(5)
        words.advance_to(5)
        with pytest.raises(TimeWentBackwards, match="input 'words' is at epoch 5 and cannot go back to 4"):
            words.advance_to(4)

    execute(main)


@pytest.mark.parametrize("bad", ["soon", 1.5, -1, None, True, 2**63])
def test_what_is_not_an_epoch(bad: Any):
    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            words.stream(scope)
        with pytest.raises(GraphError, match="is not a time of this scope; its times look like 0"):
            words.advance_to(bad)

    execute(main)


def test_after_the_end():
    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            words.stream(scope)
        words.close()
        for late in (lambda: words.send("a"), lambda: words.send_batch(["a"]), lambda: words.advance_to(1)):
            with pytest.raises(InputClosed, match="input 'words' is closed"):
                late()

    execute(main)


def test_before_there_is_a_stream():
    with pytest.raises(GraphError, match="input 'words' feeds no stream yet"):
        Input[str]("words").send("a")


def test_while_the_dataflow_is_being_built():
    """What connects to the stream later would never see the record, and wait for it for ever."""

    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            stream = words.stream(scope)
            with pytest.raises(GraphError, match="input 'words' was sent records while its dataflow was being built"):
                words.send_batch(["a"])
            return stream.extract()

    [result] = execute(main)
    assert result.rows() == []


def test_two_streams_of_one_input():
    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            words.stream(scope)
            words.stream(scope)

    with pytest.raises(GraphError, match="input 'words' feeds a stream already"):
        execute(main)


def test_in_a_scope_that_counts_iterations():
    def main(worker):
        with worker.dataflow() as scope, scope.iterative("rounds") as inner:
            Input[str]("words").stream(inner)

    with pytest.raises(GraphError, match="input 'words' counts epochs and cannot feed 'rounds'"):
        execute(main)


def test_a_dropped_dataflow_closes_its_inputs():
    def main(worker):
        words = Input[str]("words")
        with worker.dataflow() as scope:
            words.stream(scope)
        words.send("a")
        worker.drop_dataflow(0)
        assert words.closed

    execute(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster(seed: int):
    results: list[Extracted[int]] = []

    def program(worker):
        input = Input[int]()
        with worker.dataflow() as scope:
            results.append(input.stream(scope).exchange(lambda n: n).extract())
        for epoch, rows in numbers(worker.index):
            input.advance_to(epoch)
            yield
            input.send(rows[0])
            input.send_batch(rows[1:])
            yield

    SimulatedCluster(workers=3, seed=seed).run(program)
    assert merged(results) == all_numbers()


class SlowPeer(SimulatedTransport):
    """Links that are congested until the worker has parked a few times."""

    parks = 0
    parks_needed = 3

    def congested(self) -> bool:
        return self.parks < self.parks_needed

    def park(self, timeout_s: float | None) -> None:
        self.parks += 1


def behind_a_slow_peer() -> tuple[SlowPeer, Worker, Input[int]]:
    transport = SlowPeer(WorkerId(0), Network())
    worker = Worker(WorkerId(0), Members.dense(1), transport)
    input = Input[int]()
    with worker.dataflow() as scope:
        input.stream(scope).extract()
    return transport, worker, input


def test_sending_waits_until_links_are_clear():
    transport, worker, input = behind_a_slow_peer()
    input.send_batch([0] * ROWS_PER_CONTAINER)
    assert transport.parks == transport.parks_needed
    worker.finish()


def test_a_little_is_sent_at_once():
    transport, worker, input = behind_a_slow_peer()
    input.send_batch([0] * (ROWS_PER_CONTAINER - 1))
    assert (transport.parks, worker.steps) == (0, 0)
    worker.step()
    input.send_batch([0])
    assert (transport.parks, worker.steps) == (0, 1)
    worker.finish()


def test_within_a_step_it_does_not_step():
    transport = SlowPeer(WorkerId(0), Network())
    transport.parks = transport.parks_needed
    worker = Worker(WorkerId(0), Members.dense(1), transport)
    first, second = Input[int](), Input[int]()
    with worker.dataflow() as scope:
        result = second.stream(scope).extract()
        first.stream(scope).inspect(lambda n: second.send_batch([n] * ROWS_PER_CONTAINER)).extract()
    first.send(7)
    first.close()
    worker.step()
    second.close()
    worker.finish()
    assert result.rows() == [7] * ROWS_PER_CONTAINER
