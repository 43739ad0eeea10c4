"""The right to send at a time: what it allows, what it holds back, and what it refuses."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from framework.dataflow.capability import Capability, InputCapability, observe_capabilities
from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.pact import Pipeline
from framework.dataflow.scope import Scope
from framework.errors import CapabilityInvalid, GraphError, OperatorFailed, TimeNotCovered
from framework.progress.order import EPOCH_MAX, Product
from framework.progress.summary import Summary
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap, settle, worker_alone


class Rig:
    """tap -> operator with two outputs -> two catches; the test says what the operator does with each message."""

    def __init__(self, connections: dict[int, list[Summary]] | None = None, *, iterative: bool = False) -> None:
        self.worker = worker_alone()
        self.answer: Callable[[InputCapability, list[Any]], None] = lambda capability, rows: None
        with self.worker.dataflow() as scope:
            if iterative:
                with scope.iterative() as inner:
                    self._build(inner, connections or {})
            else:
                self._build(scope, connections or {})

    def _build(self, scope: Scope, connections: dict[int, list[Summary]]) -> None:
        self.tap = Tap(scope)
        builder = scope.operator("answers")
        self.input = builder.input(self.tap.outlet, Pipeline())
        self.outputs: list[OutputHandle] = []
        self.catches: list[Catch] = []
        outlets = []
        for _ in range(2):
            output, outlet = builder.output()
            self.outputs.append(output)
            outlets.append(outlet)
        for port, summaries in connections.items():
            builder.connect(self.input, self.outputs[port], summaries)

        def run() -> None:
            for capability, rows in self.input:
                self.answer(capability, rows)

        builder.build(lambda _: run)
        self.catches = [Catch(scope, outlet) for outlet in outlets]

    def message(self, *rows: Any) -> None:
        self.tap.send(*rows)
        self.settle()

    def settle(self) -> None:
        settle([self.worker], rounds=4)

    def retain(self, time: Any = None, output: int = 0) -> Capability:
        """The capability that comes with a message, for later."""
        kept: list[Capability] = []
        self.answer = lambda message, _: kept.append(
            message.retain(output) if time is None else message.delayed(time, output)
        )
        self.message("x")
        self.answer = lambda message, _: None
        return kept[0]

    def frontiers(self) -> list[tuple[Any, ...]]:
        return [catch.frontier for catch in self.catches]


def test_a_retained_capability_holds_back_its_own_output_only():
    rig = Rig()
    kept = rig.retain(output=1)
    rig.tap.advance(7)
    rig.settle()
    assert rig.frontiers() == [(7,), (0,)]
    kept.downgrade(3)
    rig.settle()
    assert (rig.frontiers(), kept.time) == ([(7,), (3,)], 3)
    kept.drop()
    rig.settle()
    assert rig.frontiers() == [(7,), (7,)]


def test_clones_count_one_by_one():
    rig = Rig()
    kept = rig.retain()
    clone, later = kept.clone(), kept.delayed(2)
    rig.tap.advance(9)
    rig.settle()
    seen = []
    for capability in (kept, clone, later):
        seen.append(rig.frontiers()[0])
        capability.drop()
        rig.settle()
    assert [*seen, rig.frontiers()[0]] == [(0,), (0,), (2,), (9,)]


def test_dropping_twice_is_dropping_once():
    rig = Rig()
    kept = rig.retain()
    clone = kept.clone()
    for _ in range(3):
        kept.drop()
    rig.tap.advance(5)
    rig.settle()
    assert (kept.held, clone.held) == (False, True)
    assert rig.frontiers()[0] == (0,)
    clone.drop()
    rig.settle()
    assert rig.frontiers()[0] == (5,)


def test_a_with_block_drops_also_when_it_fails():
    rig = Rig()
    kept = rig.retain()
    with pytest.raises(KeyError), kept as same:
        raise KeyError
    assert same is kept
    assert not kept.held


def test_downgrading_to_the_same_time_changes_nothing():
    rig = Rig()
    kept = rig.retain()
    kept.downgrade(0)
    assert len(kept.holder._internal) == 0  # type: ignore[attr-defined]
    kept.drop()


def test_sending_at_the_time_of_a_capability():
    rig = Rig()
    kept = rig.retain(time=4)
    rig.outputs[0].session(kept).give("late")
    kept.drop()
    rig.settle()
    assert rig.catches[0].rows == [(4, "late")]


@pytest.mark.parametrize(
    "use", [lambda kept: kept.clone(), lambda kept: kept.delayed(9), lambda kept: kept.downgrade(9)]
)
def test_a_dropped_capability_is_of_no_use(use: Callable[[Capability], Any]):
    kept = Rig().retain(time=2)
    kept.drop()
    with pytest.raises(CapabilityInvalid) as refusal:
        use(kept)
    assert str(refusal.value) == (
        "the capability for 2 at output 0 of 'answers' was dropped; clone it before dropping it"
    )


@pytest.mark.parametrize("use", [lambda kept: kept.delayed(1), lambda kept: kept.downgrade(1)])
def test_a_capability_does_not_cover_earlier_times(use: Callable[[Capability], Any]):
    kept = Rig().retain(time=2)
    with pytest.raises(TimeNotCovered) as refusal:
        use(kept)
    assert str(refusal.value) == (
        "the capability for 2 at output 0 of 'answers' does not cover 1; "
        "a capability only moves forward in time: keep a clone at the earlier time if you need one"
    )
    assert (kept.time, kept.held) == (2, True)
    kept.drop()


def test_nor_times_that_are_not_after_it_in_all_coordinates():
    rig = Rig(iterative=True)
    kept = rig.retain(time=Product(2, 5))
    with pytest.raises(TimeNotCovered, match=r"for \(2, 5\) at output 0 of 'answers' does not cover \(3, 4\)"):
        kept.delayed(Product(3, 4))
    kept.downgrade(Product(3, 5))
    kept.drop()


def test_nor_times_of_another_scope():
    rig = Rig()
    kept = rig.retain()
    with pytest.raises(GraphError, match=r"\(1, 0\) is not a time of this scope; its times look like 0"):
        kept.delayed(Product(1, 0))
    kept.drop()


def failure_of(rig: Rig, answer: Callable[[InputCapability, list[Any]], None]) -> BaseException:
    rig.answer = answer
    rig.tap.send("x")
    with pytest.raises(OperatorFailed) as failure:
        rig.worker.step()
    cause = failure.value.__cause__
    assert cause is not None
    return cause


def test_a_message_gives_no_capability_for_an_earlier_time():
    rig = Rig()
    rig.tap.advance(3)
    cause = failure_of(rig, lambda message, _: message.delayed(2).drop())
    assert isinstance(cause, TimeNotCovered)
    assert str(cause) == (
        "a message at 3 gives no capability for 2 at output 0 of 'answers'; ask for its own time "
        "or a later one, or for what the operator's connection from that input to that output allows"
    )


def test_a_message_gives_no_capability_where_there_is_no_path():
    cause = failure_of(Rig({1: []}), lambda message, _: message.retain(1).drop())
    assert isinstance(cause, TimeNotCovered)
    assert "for 0 at output 1 of 'answers'" in str(cause)


def test_a_message_gives_capabilities_from_where_its_path_leads():
    rig = Rig({0: [2, 5], 1: []})
    kept = rig.retain(time=2)
    assert kept.time == 2
    kept.drop()
    cause = failure_of(rig, lambda message, _: message.delayed(1).drop())
    assert isinstance(cause, TimeNotCovered)


def test_a_path_that_leads_beyond_the_last_time_gives_nothing():
    rig = Rig({0: [1]})
    rig.tap.advance(EPOCH_MAX)
    cause = failure_of(rig, lambda message, _: message.delayed(EPOCH_MAX).drop())
    assert isinstance(cause, TimeNotCovered)


def test_an_answer_at_a_time_that_the_path_excludes():
    rig = Rig({0: [1]})
    cause = failure_of(rig, lambda message, rows: rig.outputs[0].session(message).give_container(rows))
    assert isinstance(cause, CapabilityInvalid)
    assert str(cause) == (
        "<input capability for 0> does not allow sending at output 0 of 'answers': it was dropped, belongs to another "
        "output, or comes from an input with no path to it at that time"
    )


def test_an_answer_where_there_is_no_path():
    rig = Rig({1: []})
    rig.answer = lambda message, rows: rig.outputs[0].session(message).give_container(rows)
    rig.message("fine")
    cause = failure_of(rig, lambda message, rows: rig.outputs[1].session(message).give_container(rows))
    assert isinstance(cause, CapabilityInvalid)


def test_sending_at_another_output():
    rig = Rig()
    kept = rig.retain(output=1)
    with pytest.raises(
        CapabilityInvalid, match="<capability for 0 at output 1 of 'answers'> does not allow sending at "
    ):
        rig.outputs[0].session(kept)
    kept.drop()


def test_sending_after_dropping():
    rig = Rig()
    kept = rig.retain()
    kept.drop()
    with pytest.raises(CapabilityInvalid, match="<capability for 0 at output 0 of 'answers', dropped> does not allow"):
        rig.outputs[0].session(kept)


def test_the_capability_of_a_message_ends_with_its_activation():
    rig = Rig()
    given: list[InputCapability] = []
    rig.answer = lambda message, _: given.append(message)
    rig.message("x")
    for use in (given[0].retain, lambda: given[0].delayed(5), lambda: rig.outputs[0].session(given[0])):
        with pytest.raises(CapabilityInvalid) as refusal:
            use()
        assert str(refusal.value) == (
            "a message's capability for 0 was used after the activation that received it; call "
            "retain() while the message is at hand"
        )
    assert repr(given[0]) == "<input capability for 0, expired>"


def test_a_session_ends_with_its_activation():
    """Its capability may be gone by then, and the frontier with it: sending would break what others were told."""
    rig = Rig()
    sessions: list[Any] = []
    rig.answer = lambda message, _: sessions.append(rig.outputs[0].session(message))
    rig.message("x")
    rig.tap.advance(4)
    rig.settle()
    for use in (sessions[0].give, lambda row: sessions[0].give_container([row])):
        with pytest.raises(CapabilityInvalid) as refusal:
            use("too late")
        assert str(refusal.value) == (
            "a session at 0 was used after the activation that opened it, when its capability may be gone; "
            "keep the capability, and open a session when there is something to send"
        )
    rig.settle()
    assert rig.catches[0].rows == []


def test_a_forgotten_capability_is_released_with_a_warning():
    rig = Rig()
    kept = [rig.retain()]
    rig.tap.advance(6)
    rig.settle()
    assert rig.frontiers()[0] == (0,)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept.clear()
        gc.collect()
    assert [str(warning.message) for warning in caught] == [
        "a capability for 0 at output 0 of 'answers' was left to the garbage collector, and held the frontier back "
        "until now; call drop() or use `with`"
    ]
    assert caught[0].category is RuntimeWarning
    assert rig.worker.step_or_park(0.0)  # it has work: no lost wake-up
    rig.settle()
    assert rig.frontiers()[0] == (6,)


def test_a_capability_that_another_thread_forgets_is_accounted_for_in_the_workers_own():
    rig = Rig()
    kept = [rig.retain()]
    rig.tap.advance(6)
    rig.settle()

    def forget() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept.clear()

    thread = threading.Thread(target=forget)
    thread.start()
    thread.join()
    [operator] = [child.operator for child in rig.worker.dataflows()[0].children() if child.operator.name == "answers"]
    assert len(operator.shared.internal[0]) == 0
    rig.settle()
    assert rig.frontiers()[0] == (6,)


def test_a_dataflow_that_is_dropped_takes_its_capabilities_along_in_silence():
    rig = Rig()
    kept = [rig.retain()]
    rig.worker.drop_dataflow(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.clear()
        gc.collect()
    rig.worker.step()
    assert rig.worker.dataflows() == {}


def test_whoever_observes_sees_every_capability_of_any_origin():
    seen: list[Capability] = []
    end = observe_capabilities(seen.append)
    rig = Rig()
    kept = rig.retain(time=3)
    clone = kept.clone()
    end()
    rig.settle()
    kept.delayed(9).drop()
    assert [(capability.time, capability.holder) for capability in seen] == [
        (0, rig.tap.output),
        (3, rig.outputs[0]),
        (3, rig.outputs[0]),
    ]
    assert [capability.held for capability in seen] == [True] * 3
    for capability in (kept, clone):
        capability.drop()


def test_capabilities_print_what_they_are():
    kept = Rig().retain(time=3)
    assert repr(kept) == "<capability for 3 at output 0 of 'answers'>"
    kept.drop()
    assert repr(kept) == "<capability for 3 at output 0 of 'answers', dropped>"


def test_initial_capabilities_may_be_given_up_at_once():
    worker = worker_alone()
    with worker.dataflow() as scope:
        builder = scope.operator("starts late")
        output, outlet = builder.output()
        kept: list[Capability] = []

        def start(capabilities: list[Capability]) -> Callable[[], None]:
            capabilities[0].downgrade(5)
            kept.extend(capabilities)
            return lambda: None

        builder.build(start, capabilities=True)
        assert builder.operator.initial == [[(0, 1)]]
        catch = Catch(scope, outlet)
    settle([worker], rounds=3)
    assert catch.frontier == (5,)
    output.session(kept[0]).give("x")
    kept[0].drop()
    settle([worker], rounds=4)
    assert catch.rows == [(5, "x")]
    assert worker.installed_dataflows() == []


def test_handles_say_what_waits_in_them():
    worker: Worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        builder = scope.operator("does not read")
        input: InputHandle = builder.input(tap.outlet, Pipeline())
        builder.build(lambda _: lambda: None)
    session = tap.output.session(tap.capability)
    session.give("a")
    assert tap.output.buffered() == (0, 1)
    worker.step()
    assert tap.output.buffered()[1] == 0
    assert list(input.queued()) == [(0, ["a"])]
