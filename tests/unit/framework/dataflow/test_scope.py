"""Putting graphs together, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.dataflow.builder import OperatorBuilder
from framework.dataflow.pact import Broadcast, Exchange, Pact, Pipeline
from framework.dataflow.scope import Outlet, Scope
from framework.errors import CycleDoesNotAdvance, DataflowMismatch, GraphError
from framework.progress.order import Product
from framework.progress.subgraph import Subgraph
from framework.progress.summary import Local, Outer, Summary
from framework.simulation.network import Network
from framework.worker.worker import Worker
from tests.unit.framework.dataflow.taps import Catch, Tap, deliver_all, settle, worker_alone, workers


def node(
    scope: Scope, outlet: Outlet | None, *, name: str = "node", pact: Pact | None = None
) -> tuple[OperatorBuilder, Outlet]:
    """An operator with one input and one output that does nothing."""
    builder = scope.operator(name)
    builder.input(outlet, pact or Pipeline())
    _, out = builder.output()
    builder.build(lambda _: lambda: None)
    return builder, out


def refused(build: Callable[[Scope], object]) -> str:
    """What a dataflow called 'job' is refused with."""
    with pytest.raises(GraphError) as refusal, worker_alone().dataflow("job") as scope:
        build(scope)
    return str(refusal.value)


def test_a_stream_of_the_scope_around():
    def build(scope: Scope) -> None:
        tap = Tap(scope)
        with scope.iterative("loop") as inner:
            node(inner, tap.outlet)

    assert refused(build) == (
        "a stream of scope 'job' cannot be used in scope 'loop'; bring it in with enter() or out with leave()"
    )


def test_a_stream_of_a_nested_scope():
    def build(scope: Scope) -> None:
        with scope.iterative("loop") as inner:
            tap = Tap(inner)
        node(scope, tap.outlet)

    assert refused(build).startswith("a stream of scope 'loop' cannot be used in scope 'job'")


def test_a_stream_of_another_dataflow():
    worker = worker_alone()
    with worker.dataflow("first") as first:
        tap = Tap(first)
    used_in_second = pytest.raises(GraphError, match="a stream of scope 'first' cannot be used in scope 'second'")
    with used_in_second, worker.dataflow("second") as second:
        node(second, tap.outlet)


def test_a_stream_that_enters_from_too_far():
    def build(scope: Scope) -> None:
        tap = Tap(scope)
        with scope.region("outer") as outer, outer.region("inner") as inner:
            inner.enter(tap.outlet)

    assert refused(build) == "scope 'inner' takes in streams of scope 'outer', the one around it, not of scope 'job'"


def test_nothing_enters_a_dataflow():
    assert refused(lambda scope: scope.enter(Tap(scope).outlet)) == (
        "scope 'job' takes in streams of nothing: it is a dataflow of its own, not of scope 'job'"
    )


def test_nothing_leaves_a_dataflow():
    assert refused(lambda scope: scope.leave(Tap(scope).outlet)) == (
        "'job' is a dataflow of its own: there is nothing around it to leave into"
    )


def test_an_operator_for_a_scope_that_is_complete():
    def build(scope: Scope) -> None:
        with scope.region("early") as inner:
            pass
        inner.operator("late")

    assert refused(build) == ("scope 'early' is complete; add operator 'late' within its `with` block, or around it")


def test_a_stream_that_leaves_a_scope_that_is_complete():
    def build(scope: Scope) -> None:
        with scope.region("early") as inner:
            tap = Tap(inner)
        inner.leave(tap.outlet)

    assert refused(build) == "scope 'early' is complete; connect its streams within its `with` block"


def test_a_stream_that_enters_a_scope_that_is_complete():
    def build(scope: Scope) -> None:
        tap = Tap(scope)
        with scope.region("early") as inner:
            pass
        inner.enter(tap.outlet)

    assert refused(build) == "scope 'early' is complete; enter() streams within its `with` block"


def test_a_loop_that_is_closed_too_late():
    worker = worker_alone()
    with worker.dataflow("job") as scope:
        builder = scope.operator("feedback")
        handle = builder.input(None, Pipeline())
        output, outlet = builder.output()
        builder.connect(handle, output, [1])
        builder.build(lambda _: lambda: None)
    with pytest.raises(GraphError, match="scope 'job' is complete; connect its streams within its `with` block"):
        builder.attach(handle, outlet, Pipeline())


def test_operators_that_were_never_built():
    def build(scope: Scope) -> None:
        scope.operator("one")
        Tap(scope)
        scope.operator("other")

    assert refused(build) == "in scope 'job' these operators were begun and never built: one, other"


def test_an_operator_that_is_built_twice():
    def build(scope: Scope) -> None:
        builder, _ = node(scope, None, name="twin")
        builder.build(lambda _: lambda: None)

    assert refused(build) == "operator 'twin' is already built"


@pytest.mark.parametrize("summaries", [[Local(1)], [-1], [0, Local(1)]])
def test_a_summary_of_another_scope(summaries: list[Summary]):
    def build(scope: Scope) -> None:
        builder = scope.operator("map")
        handle = builder.input(Tap(scope).outlet, Pipeline())
        output, _ = builder.output()
        builder.connect(handle, output, summaries)

    assert refused(build).endswith("is not a summary of this scope; its summaries look like 0")


def test_a_loop_that_does_not_advance_names_its_operators():
    worker = worker_alone()

    def build(scope: Scope) -> None:
        closing = scope.operator("closing")
        handle = closing.input(None, Pipeline())
        _, looped = closing.output()
        closing.build(lambda _: lambda: None)
        _, first = node(scope, looped, name="first")
        _, second = node(scope, first, name="second")
        closing.attach(handle, second, Pipeline())

    with pytest.raises(CycleDoesNotAdvance) as refusal, worker.dataflow() as scope:
        build(scope)
    assert str(refusal.value).startswith("the loop ")
    assert {"closing", "first", "second"} <= set(str(refusal.value).replace(";", " ").split())
    assert worker.installed_dataflows() == []


def test_a_loop_around_a_scope_that_only_iterates_does_not_advance_either():
    """Iterations inside a scope leave the time outside as it is."""

    def build(scope: Scope) -> None:
        opening = scope.operator("opening")
        handle = opening.input(None, Pipeline())
        _, looped = opening.output()
        opening.build(lambda _: lambda: None)
        with scope.iterative() as inner:
            step = inner.operator("step")
            input = step.input(inner.enter(looped), Pipeline())
            output, stepped = step.output()
            step.connect(input, output, [Local(1)])
            step.build(lambda _: lambda: None)
            left = inner.leave(stepped)
        opening.attach(handle, left, Pipeline())

    with pytest.raises(CycleDoesNotAdvance, match="iterate"), worker_alone().dataflow() as scope:
        build(scope)


def test_a_scope_does_to_times_outside_what_its_paths_do():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.iterative() as inner:
            entered = inner.enter(tap.outlet)
            steps: list[list[Summary]] = [[Local(3)], [Outer(2, 0)], [Outer(1, 5), Local(1)], []]
            for summaries in steps:
                builder = inner.operator("step")
                input = builder.input(entered, Pipeline())
                output, out = builder.output()
                builder.connect(input, output, summaries)
                builder.build(lambda _: lambda: None)
                inner.leave(out)
            inner.leave(entered)
    [nested] = [child.operator for child in worker.dataflows()[0].children() if isinstance(child.operator, Subgraph)]
    [connection] = nested.connection
    assert [set(paths) for paths in connection] == [{0}, {2}, {0}, set(), {0}]


def test_no_path_lets_a_frontier_pass():
    """What may come in at an input that leads nowhere does not hold the output back."""
    worker = worker_alone()
    with worker.dataflow() as scope:
        data, queries = Tap(scope, "data"), Tap(scope, "queries")
        builder = scope.operator("answers")
        data_in, queries_in = builder.input(data.outlet, Pipeline()), builder.input(queries.outlet, Pipeline())
        results, results_out = builder.output()
        answers, answers_out = builder.output()
        builder.connect(queries_in, results, [])
        builder.connect(data_in, answers, [3])
        builder.build(lambda _: lambda: None)
        catches = [Catch(scope, results_out), Catch(scope, answers_out)]
    settle([worker], rounds=3)
    assert [catch.frontier for catch in catches] == [(0,), (0,)]
    data.advance(7)
    settle([worker], rounds=3)
    assert [catch.frontier for catch in catches] == [(7,), (0,)]
    queries.advance(20)
    settle([worker], rounds=3)
    assert [catch.frontier for catch in catches] == [(7,), (10,)]


def mismatch(first: Callable[[Scope], object], second: Callable[[Scope], object]) -> str | None:
    """What the second of two workers says when they build these."""
    network = Network()
    peers = workers(2, network)
    for worker, build in zip(peers, (first, second), strict=True):
        with worker.dataflow() as scope:
            build(scope)
        worker.step()
    deliver_all(network)
    try:
        peers[1].step()
    except DataflowMismatch as error:
        return str(error)
    return None


def test_workers_that_build_the_same_agree():
    def build(scope: Scope) -> None:
        with scope.iterative() as inner:
            node(inner, inner.enter(Tap(scope).outlet), pact=Exchange(hash))

    assert mismatch(build, build) is None


def with_connection(summaries: list[Summary]) -> Callable[[Scope], object]:
    def build(scope: Scope) -> None:
        builder = scope.operator("map")
        handle = builder.input(Tap(scope).outlet, Pipeline())
        output, _ = builder.output()
        builder.connect(handle, output, summaries)
        builder.build(lambda _: lambda: None)

    return build


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda scope: Tap(scope, "a"), lambda scope: Tap(scope, "b")),
        (lambda scope: Tap(scope), lambda scope: (Tap(scope), Tap(scope))),
        (
            lambda scope: node(scope, Tap(scope).outlet, pact=Exchange(hash)),
            lambda scope: node(scope, Tap(scope).outlet, pact=Broadcast()),
        ),
        (with_connection([0]), with_connection([1])),
        (with_connection([0]), with_connection([])),
    ],
)
def test_workers_that_build_different_dataflows_are_told_so(
    first: Callable[[Scope], object], second: Callable[[Scope], object]
):
    assert mismatch(first, second) == (
        "workers 1 and 0 built different dataflows (number 0); build the same operators "
        "in the same order on every worker, and keep what differs, such as `if worker.index == 0`, out of it"
    )


def test_a_difference_within_a_nested_scope_is_noticed_too():
    def build(name: str) -> Callable[[Scope], object]:
        def of(scope: Scope) -> None:
            with scope.region() as inner:
                Tap(inner, name)

        return of

    assert mismatch(build("a"), build("b")) is not None


def names(worker: Worker, build: Callable[[Scope], object]) -> list[str]:
    with worker.dataflow() as scope:
        build(scope)
    return [name for _, name in scope.operators()]


def test_a_broadcast_of_what_left_a_scope_goes_through_a_relay():
    """Also while that scope is still open, and not for what entered or was made here."""

    def after(scope: Scope) -> None:
        with scope.region() as inner:
            left = inner.leave(Tap(inner).outlet)
        Catch(scope, left, Broadcast())

    def before(scope: Scope) -> None:
        with scope.region() as inner:
            left = inner.leave(Tap(inner).outlet)
            Catch(scope, left, Broadcast())

    def inside(scope: Scope) -> None:
        with scope.region() as inner:
            Catch(inner, inner.enter(Tap(scope).outlet), Broadcast())

    def exchanged(scope: Scope) -> None:
        with scope.region() as inner:
            left = inner.leave(Tap(inner).outlet)
        Catch(scope, left, Exchange(hash))

    worker = worker_alone()
    assert [names(worker, build).count("relay") for build in (after, before, inside, exchanged)] == [1, 1, 0, 0]


def test_whether_a_stream_was_brought_to_all_workers():
    """What matters is each source that can send: whether every path from it goes over an edge to all."""
    with worker_alone().dataflow() as scope:
        tap, nothing = Tap(scope), scope.operator("nothing")
        _, silent = nothing.output()
        nothing.build(lambda _: lambda: None)
        _, exchanged = node(scope, tap.outlet, pact=Exchange(lambda _: 0))
        _, to_all = node(scope, tap.outlet, pact=Broadcast())
        _, behind = node(scope, to_all)
        both = scope.operator("both")
        for outlet in (behind, exchanged):
            both.input(outlet, Pipeline())
        _, mixed = both.output()
        both.build(lambda _: lambda: None)
        outlets = {"tap": tap.outlet, "silent": silent, "exchanged": exchanged, "to all": to_all, "mixed": mixed}
        assert {name for name, outlet in outlets.items() if scope.reaches_all(outlet)} == {"silent", "to all"}
        assert scope.reaches_all(behind)
        with scope.region() as inner:
            assert inner.reaches_all(inner.enter(tap.outlet)), "what enters is not looked into"


def test_operators_are_listed_with_their_paths():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.iterative("outer") as outer, outer.region("inner") as inner:
            Catch(inner, inner.enter(outer.enter(tap.outlet)))
        Tap(scope, "last")
    assert scope.operators() == [
        ("0.1", "tap"),
        ("0.2", "outer"),
        ("0.2.1", "inner"),
        ("0.2.1.1", "catch"),
        ("0.3", "last"),
    ]


def test_a_stream_that_leaves_twice_and_one_that_passes_straight_through():
    worker = worker_alone()
    with worker.dataflow() as scope:
        tap = Tap(scope)
        with scope.iterative() as inner:
            entered = inner.enter(tap.outlet)
            left = [inner.leave(entered), inner.leave(entered)]
            inside = [Catch(inner, entered), Catch(inner, entered)]
        catches = [Catch(scope, outlet) for outlet in (*left, left[0])]
    tap.advance(2)
    tap.send("x")
    tap.close()
    settle([worker], rounds=6)
    assert [catch.rows for catch in catches] == [[(2, "x")]] * 3
    assert [catch.rows for catch in inside] == [[(Product(2, 0), "x")]] * 2
    assert worker.installed_dataflows() == []
