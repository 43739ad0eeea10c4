"""Jobs: names at the ends of a dataflow, and the ways to run them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count as count_from
from pathlib import Path
from threading import Barrier, Event, Thread, Timer

import pytest

from framework.dataflow.capability import Capability
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.operator import Activator
from framework.errors import ConfigError, DuplicateName, GraphError, InputClosed, OperatorFailed
from framework.launch.config import Config
from framework.membership.members import WorkerId
from operators import BinOptions, EpochClock, Flow, Job, Stream, Worker, counting, execute
from operators.columns import aggregates
from operators.core.unary import UnaryLogic
from operators.errors import RecordUnfit
from operators.job.files import lines
from operators.job.run_loop import epochs, feed_from, run_on_worker
from routing.bins import BinId, Bins
from routing.commands import Instruction, Map, Move
from routing.routing_table import Installation


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    return total + n, [(word, total + n)]


def wordcount() -> Job:
    job = Job("wordcount")

    @job.dataflow
    def build(flow: Flow) -> None:
        words = flow.input("lines").flat_map(str.split).map(lambda word: (word, 1))
        flow.output("counts", words.state_machine(count, initial=0))
        flow.output("words", words.map(lambda pair: pair[0]))

    return job


@pytest.mark.parametrize("threads", [1, 3])
def test_run_collects_every_output_by_epoch(threads: int):
    outputs = wordcount().run({"lines": ["a b", "a", "b a"]}, threads=threads, epoch_records=1)
    assert {name: sorted(rows) for name, rows in outputs.items()} == {
        "counts": [(0, ("a", 1)), (0, ("b", 1)), (1, ("a", 2)), (2, ("a", 3)), (2, ("b", 2))],
        "words": [(0, "a"), (0, "b"), (1, "a"), (2, "a"), (2, "b")],
    }


def into_a_sink(stream: Stream[str], seen: list[str]) -> None:
    def keep(input: InputHandle) -> None:
        for _, rows in input:
            seen.extend(rows)

    stream.exchange_by(str).sink(keep)


def into_a_sink_in_a_region(stream: Stream[str], seen: list[str]) -> None:
    with stream.scope.region() as inner:
        into_a_sink(stream.enter(inner), seen)


def past_an_observer(stream: Stream[str], seen: list[str]) -> None:
    stream.exchange_by(str).inspect(seen.append)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("end", [into_a_sink, into_a_sink_in_a_region, past_an_observer])
def test_a_job_may_end_otherwise_than_in_outputs(end: Callable[[Stream[str], list[str]], None], threads: int):
    job, seen = Job("sink"), list[str]()
    lines = [f"line {number}" for number in range(40)]

    @job.dataflow
    def build(flow: Flow) -> None:
        end(flow.input("lines"), seen)

    assert job.run({"lines": lines}, threads=threads, epoch_records=1) == {}
    assert sorted(seen) == sorted(lines)


def slowly(capability: Capability, activator: Activator) -> UnaryLogic:
    """Lets a container through every third time that it is asked."""
    capability.drop()
    waiting: deque[tuple[Capability, list[str]]] = deque()
    asked = count_from(1)

    def logic(input: InputHandle, output: OutputHandle) -> None:
        waiting.extend((arrived.retain(), rows) for arrived, rows in input)
        if waiting and next(asked) % 3 == 0:
            oldest, rows = waiting.popleft()
            with oldest:
                output.session(oldest).give_container(rows)
        if waiting:
            activator.activate()

    return logic


@pytest.mark.parametrize("end", [into_a_sink, past_an_observer])
def test_without_outputs_a_source_is_not_read_ahead_of_the_ends(end: Callable[[Stream[str], list[str]], None]):
    job, seen, ahead = Job("sink"), list[str](), list[int]()

    def source() -> Iterator[str]:
        for read in range(100):
            ahead.append(read - len(seen))
            yield str(read)

    @job.dataflow
    def build(flow: Flow) -> None:
        end(flow.input("numbers").unary_frontier(slowly), seen)

    job.run({"numbers": source()}, epoch_records=1)
    assert (len(seen), max(ahead) <= 64) == (100, True)


@pytest.mark.parametrize("inputs", [[], ["lines"]])
def test_a_job_that_does_nothing(inputs: list[str]):
    job = Job("idle")

    @job.dataflow
    def build(flow: Flow) -> None:
        for name in inputs:
            flow.input(name)

    with pytest.raises(GraphError) as caught:
        job.run({name: ["tea"] for name in inputs})
    assert str(caught.value) == (
        "job 'idle' does nothing with its inputs; end its dataflow with `flow.output(name, stream)`, or with "
        "`stream.sink(logic)`"
    )


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            lambda lines: lines.map(len),
            ["job 'idle' has no output, and nothing takes what 'map' sends; end its dataflow "],
        ),
        (lambda lines: lines.inspect(len), []),
        (lambda lines: lines.map(len).inspect_batch(lambda time, rows: None), []),
    ],
)
def test_a_forgotten_output_is_told(
    end: Callable[[Stream[str]], object], told: list[str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "hailer")
    job = Job("idle")

    @job.dataflow
    def build(flow: Flow) -> None:
        end(flow.input("lines"))

    assert job.run({"lines": ["tea"]}, threads=2) == {}
    assert [message.partition("with `flow")[0] for message in caplog.messages] == told


@pytest.mark.parametrize(("threads", "expected"), [(1, [False, False]), (2, [False, True])])
def test_a_source_is_read_ahead_only_as_far_as_keeps_workers_busy(threads: int, expected: list[bool]):
    """Whether the first is in flight when the source is asked for the second; a second worker holds it until then."""
    job, in_flight, asked = Job("ahead"), list[bool](), Event()

    def source(flow: Flow) -> Iterator[list[int]]:
        for epoch in range(2):
            in_flight.append(flow.probe.less_than(epoch))
            if epoch:
                asked.set()
            yield [0, 1]

    @job.dataflow
    def build(flow: Flow) -> None:
        waits = flow.worker.index == 1
        flow.output("out", flow.input("in").inspect(lambda _: waits and asked.wait(10)))

    def main(worker: Worker) -> None:
        flow = job.build(worker, lambda name: lambda epoch, rows: None)
        run_on_worker(flow, partial(feed_from, {"in": source(flow)} if flow.commanding else {}))

    execute(main, Config(threads=threads))
    assert in_flight == expected


def test_a_worker_hands_the_others_their_shares_of_an_epoch_before_it_works_on_its_own():
    """Each of two waits in its own function for the other."""
    job, both = Job("shares"), Barrier(2, timeout=10)

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("out", flow.input("in").map(lambda number: (both.wait(), number)[1]))

    assert sorted(job.run({"in": [1, 2]}, threads=2)["out"]) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_records_come_at_the_epochs_that_were_chosen(threads: int):
    """Those of one input at epochs far apart, those of the other one by one."""
    job = Job("two inputs")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("sums", flow.input("numbers").concat(flow.input("more")).count())

    outputs = job.run({"numbers": {10**12: [1, 2], 1: [3]}, "more": iter("abc")}, threads=threads, epoch_records=1)
    assert outputs == {"sums": [(0, 1), (1, 2), (2, 1), (10**12, 2)]}


def test_columns_come_at_the_epochs_that_were_chosen():
    job = Job("columns")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("words", flow.input_columns("words", {"word": str}))

    assert job.run({"words": {5: ["tea"], 2: ["milk"]}}) == {"words": [(2, "milk"), (5, "tea")]}


def test_commands_take_effect_at_the_epochs_that_were_chosen():
    """Also at one without records, and at one after all records. The late click finds its window, which has moved."""
    job, installed = Job("windows"), list[tuple[int, int]]()

    def report(outcome: object) -> None:
        if isinstance(outcome, Installation) and outcome.ships:
            installed.append((outcome.time, len(outcome.ships)))

    @job.dataflow
    def build(flow: Flow) -> None:
        results, late = flow.input("clicks").tumbling_window(
            counting(),
            length=10,
            key=lambda click: click[0],
            event_time=lambda click: click[1],
            clock=EpochClock(10),
            lateness=20,
            bins=BinOptions(4, report=report),
        )
        flow.output("counts", results.map(lambda result: (result.window.start, result.value, flow.worker.index)))
        flow.output("late", late.map(lambda late: late.record))

    bin_id = Bins(4).of("ann")
    first, second = ((bin_id + turn) % 2 for turn in (0, 1))  # bins begin on the workers in turn
    clicks = {0: [("ann", 2), ("ann", 9)], 2: [("ann", 4)], 4: [("ann", 5)]}
    commands: dict[int, list[Instruction]] = {
        1: [Move(bin_id, WorkerId(second))],
        3: [Move(bin_id, WorkerId(first))],
        6: [Map((WorkerId(0),) * 4)],
    }
    outputs = job.run({"clicks": clicks}, threads=2, commands=commands)
    assert outputs == {"counts": [(0, (0, 2, first)), (2, (0, 3, second))], "late": [(4, ("ann", 5))]}
    assert sorted(installed) == [(1, 1), (3, 1), (6, 2)]


def test_commands_for_a_job_that_does_not_listen():
    with pytest.raises(GraphError, match="no operator of this job listens to commands"):
        wordcount().run({"lines": ["a"]}, commands={0: [Move(BinId(0), WorkerId(0))]})


BINS = 8
EPOCHS = 40


@pytest.mark.parametrize("threads", [2, 3])
def test_bins_move_by_command_while_a_job_runs(threads: int):
    """Commands come from another thread, at epochs that the source decides on; the counts are those of a plain loop."""
    flows: dict[int, Flow] = {}
    shipped: list[int] = []

    def report(outcome: object) -> None:
        if isinstance(outcome, Installation):
            shipped.extend(ship.bin_id for ship in outcome.ships)

    job = Job("moving")

    @job.dataflow
    def build(flow: Flow) -> None:
        flows[flow.worker.index] = flow
        pairs = flow.input("words").map(lambda word: (word, 1))
        counts = pairs.stateful_state_machine(count, initial=0, bins=BinOptions(BINS, report=report))
        again = counts.map(lambda pair: (pair[0][0], 1)).stateful_state_machine(count, initial=0, bins=BINS)
        flow.output("words", counts)
        flow.output("letters", again)

    def words() -> Iterator[str]:
        for epoch in range(EPOCHS):
            if epoch % 4 == 1:
                ask(flows[0], Map(tuple(WorkerId((bin_id + epoch // 4) % threads) for bin_id in range(BINS))))
            elif epoch % 4 == 2:
                ask(flows[0], *(Move(BinId(bin_id), WorkerId(epoch % threads)) for bin_id in (epoch % BINS, 7)))
            yield from (f"{'abcdefg'[n % 7]}{n % 11}" for n in range(epoch, epoch + 10))

    outputs = job.run({"words": words()}, threads=threads, epoch_records=10)
    expected: dict[str, list[tuple[int, tuple[str, int]]]] = {"words": [], "letters": []}
    totals: dict[str, Counter[str]] = {"words": Counter(), "letters": Counter()}
    for epoch in range(EPOCHS):
        for n in range(epoch, epoch + 10):
            for name, key in (("words", f"{'abcdefg'[n % 7]}{n % 11}"), ("letters", "abcdefg"[n % 7])):
                totals[name][key] += 1
                expected[name].append((epoch, (key, totals[name][key])))
    assert {name: sorted(rows) for name, rows in outputs.items()} == {
        name: sorted(rows) for name, rows in expected.items()
    }
    assert len(shipped) > 5 * BINS


def ask(flow: Flow, *instructions: Instruction) -> None:
    """Ask for instructions as a control plane would, from a thread of its own."""
    thread = Thread(target=flow.command, args=instructions)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_every_worker_may_feed_a_job_whose_bins_move():
    """Only the first worker's control stream goes along; the others' must not hold anything up."""
    job, counts = Job("all feed"), list[tuple[str, int]]()

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("counts", flow.input("pairs").stateful_state_machine(count, initial=0, bins=2))

    def main(worker: Worker) -> None:
        flow = job.build(worker, lambda name: lambda epoch, rows: counts.extend(rows))
        if flow.commanding:
            flow.command(Map((WorkerId(1), WorkerId(0))))
        run_on_worker(flow, partial(feed_from, {"pairs": epochs([("tea", 1)] * 50, 1)}))

    execute(main, Config(threads=2))
    assert sorted(counts) == [("tea", total) for total in range(1, 101)]


def test_a_command_wakes_a_worker_that_is_parked():
    job = Job("parked")
    seen: list[object] = []

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("counts", flow.input("pairs").stateful_state_machine(count, initial=0, bins=2))
        flow.commands().inspect(lambda control: seen.append(control.instruction))

    def main(worker: Worker) -> float:
        flow = job.build(worker, lambda name: lambda epoch, rows: None)
        for _ in range(10):
            worker.step()
        started_s = time.monotonic()
        Timer(0.1, lambda: flow.command(Move(BinId(1), WorkerId(0)))).start()
        while not seen and time.monotonic() - started_s < 30:
            worker.step_or_park(20)
        return time.monotonic() - started_s

    [seconds] = execute(main)
    assert seen == [Move(BinId(1), WorkerId(0))]
    assert seconds < 10


def test_what_was_asked_for_before_the_inputs_end_is_sent_and_afterwards_asking_is_an_error():
    job = Job("ending")
    installed: list[object] = []

    @job.dataflow
    def build(flow: Flow) -> None:
        options = BinOptions(2, report=installed.append)
        flow.output("counts", flow.input("pairs").stateful_state_machine(count, initial=0, bins=options))

    def main(worker: Worker) -> None:
        flow = job.build(worker, lambda name: lambda epoch, rows: None)

        def source() -> Iterator[list[tuple[str, int]]]:
            yield [("tea", 1)]
            yield [("tea", 1)]
            flow.command(Map((WorkerId(1), WorkerId(1))))

        if worker.index == 0:
            run_on_worker(flow, partial(feed_from, {"pairs": source()}))
            with pytest.raises(InputClosed, match="inputs of this job have ended, and its bins move no more"):
                flow.command(Map((WorkerId(0), WorkerId(0))))
        else:
            run_on_worker(flow, partial(feed_from, {}))
            with pytest.raises(GraphError, match="worker 1 sends no commands, worker 0 does; ask its flow"):
                flow.command(Map((WorkerId(0), WorkerId(0))))

    execute(main, Config(threads=2))
    times = [(it.time, len(it.ships)) for it in installed if isinstance(it, Installation)]
    assert sorted(times) == [(2, 0), (2, 1)]


def test_a_job_whose_operators_do_not_listen_takes_no_commands():
    def main(worker: Worker) -> None:
        flow = wordcount().build(worker, lambda name: lambda epoch, rows: None)
        assert flow.control is None
        with pytest.raises(GraphError, match="no operator of this job listens to commands"):
            flow.command(Move(BinId(1), WorkerId(0)))

    execute(main)


def test_names_are_given_once():
    job = Job("twice")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.input("lines")
        flow.input("lines")

    with pytest.raises(DuplicateName, match="this job has an input 'lines' already"):
        job.run({})

    other = Job("outputs")

    @other.dataflow
    def build_other(flow: Flow) -> None:
        stream = flow.input("lines")
        flow.output("out", stream)
        flow.output("out", stream)

    with pytest.raises(DuplicateName, match="this job has an output 'out' already"):
        other.run({})


def test_an_output_goes_out_by_epoch():
    job = Job("looping")

    @job.dataflow
    def looping(flow: Flow) -> None:
        numbers = flow.input("in")
        with flow.scope.iterative("rounds") as inner:
            flow.output("out", numbers.enter(inner))

    expected = r"output 'out' goes out by epoch, and got a stream of scope 'rounds', .* with `leave\(\)`"
    with pytest.raises(GraphError, match=expected):
        job.run({"in": [1]})


def test_an_output_may_be_in_a_region():
    job = Job("grouped")

    @job.dataflow
    def grouped(flow: Flow) -> None:
        numbers = flow.input("in")
        with flow.scope.region("group") as inner:
            flow.output("out", numbers.enter(inner))

    assert job.run({"in": [1]}) == {"out": [(0, 1)]}


def test_a_job_has_one_dataflow():
    job = wordcount()
    with pytest.raises(GraphError, match="job 'wordcount' has a dataflow already"):
        job.dataflow(lambda flow: None)
    with pytest.raises(GraphError, match="job 'empty' has no dataflow"):
        Job("empty").run({})


def test_an_unknown_input_gets_the_closest_name():
    with pytest.raises(ConfigError, match="no input 'line'; it has 'lines'; did you mean 'lines'"):
        wordcount().run({"line": ["a"]})


def test_a_failing_function_is_named():
    job = Job("fails")

    @job.dataflow
    def build(flow: Flow) -> None:
        flow.output("out", flow.input("in").map(int, name="parse"))

    with pytest.raises(OperatorFailed, match="operator 'parse'"):
        job.run({"in": ["x"]})


def test_an_epoch_has_records():
    assert list(epochs("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(ConfigError, match="at least one record, not 0"):
        list(epochs("abc", 0))


@pytest.mark.parametrize("text", ["", "one", "one\n", "\n\n", "one\r\ntwo\nthree three\n\nfive", "ü\né" * 9])
def test_every_line_of_a_file_is_read(tmp_path: Path, text: str):
    path = tmp_path / "lines.txt"
    path.write_bytes(text.encode())
    read = [line for rows in lines(path, lines_max=2) for line in rows]
    expected = text.replace("\r\n", "\n").split("\n")
    assert read == (expected[:-1] if expected[-1] == "" else expected)


def test_lines_that_are_not_text_come_through(tmp_path: Path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"ok\n\xff\xfe\n")
    assert list(lines(path, lines_max=10)) == [["ok", "\udcff\udcfe"]]


def test_records_go_into_an_input_of_columns():
    job = Job("sums")

    @job.dataflow
    def sums(flow: Flow) -> None:
        sales = flow.input_columns("sales", {"what": str, "cents": int})
        flow.output("sums", sales.stateful_aggregate({"cents": aggregates.sum("cents")}, key="what"))

    assert job.run({"sales": [("tea", 2), ("tea", 3), ("tea", 4)]}, epoch_records=2) == {
        "sums": [(0, ("tea", 5)), (1, ("tea", 9))]
    }
    with pytest.raises(RecordUnfit, match="input 'sales'"):
        job.run({"sales": ["tea"]})
