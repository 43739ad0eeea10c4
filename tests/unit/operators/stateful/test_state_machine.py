"""`state_machine`: state per key, changed in the order of times."""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass
from random import Random
from typing import Any
from weakref import ref

import pytest

from framework.errors import OperatorFailed
from framework.launch.execute import example, execute
from framework.progress.order import Product
from operators import DISCARD, EventLog, Input, Probe, iterator_source, replay, to_stream, unordered_input
from operators.capture.event import CapturedEvent, MessagesEvent, ProgressEvent
from operators.errors import FoldMisreturned, RecordNotPair, SharedInitial
from routing.hashing import UnsupportedKey, stable_hash
from tests.unit.operators.cluster import SEEDS, merged, run


def count(word: str, n: int, total: int) -> tuple[int, list[tuple[str, int]]]:
    total += n
    return total, [(word, total)]


def test_word_count():
    def build(scope):
        lines = iterator_source(scope, [(0, ["to be or", "not to be"]), (1, ["be"])])
        return lines.flat_map(str.split).map(lambda word: (word, 1)).state_machine(count, initial=0).extract()

    assert example(build).by_time() == {
        0: [("to", 1), ("be", 1), ("or", 1), ("not", 1), ("to", 2), ("be", 2)],
        1: [("be", 3)],
    }


def test_a_record_waits_for_what_is_earlier_and_its_output_carries_its_own_time():
    applied: list[int] = []

    def fold(key, value, state):
        applied.append(value)
        return (*state, value), [(*state, value)]

    def main(worker):
        probe = Probe()
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope)
            result = stream.state_machine(fold, initial=()).probe(probe).extract()
        with now.delayed(9) as later, now.delayed(5) as middle:
            input.send(later, ("k", 9))
            input.send(middle, ("k", 5))
            input.send(later, ("k", 9))
            worker.step()
            worker.step()
            assert (applied, probe.frontier()) == ([], (0,))
            input.send(now, ("k", 0))
            worker.step()
            assert applied == [0]
            now.drop()
            worker.step_while(lambda: probe.less_than(5))
            assert applied == [0, 5]
        return result

    [result] = execute(main)
    assert applied == [0, 5, 9, 9]
    assert result.by_time() == {0: [(0,)], 5: [(0, 5)], 9: [(0, 5, 9), (0, 5, 9, 9)]}


def test_discard_forgets_the_key():
    def toggle(key, value, state):
        if value == "end":
            return DISCARD, [(key, state)]
        return state + value, []

    pairs = [("a", 1), ("b", 5), ("a", 2), ("a", "end"), ("a", 3), ("a", "end"), ("c", "end")]
    result = example(lambda scope: to_stream(scope, pairs).state_machine(toggle, initial=0).extract())
    assert result.rows() == [("a", 3), ("a", 3), ("c", 0)]


def test_a_key_that_was_discarded_takes_no_memory():
    class Word(str):
        """A key that can be watched."""

    kept: list[Any] = []

    def main(worker):
        words = Input[tuple[Word, int]]()
        with worker.dataflow() as scope:
            words.stream(scope).state_machine(lambda k, v, s: (DISCARD, ()), initial=0).sink(lambda input: None)
        word = Word("once")
        watched = ref(word)
        words.send((word, 1))
        words.flush()
        del word
        worker.step()
        gc.collect()
        kept.append(watched())

    execute(main)
    assert kept == [None]


def test_each_key_has_a_fresh_state_of_its_own():
    def gather(key, value, state):
        state.append(value)
        return state, [(key, tuple(state))]

    pairs = [("a", 1), ("b", 2), ("a", 3)]
    result = example(lambda scope: to_stream(scope, pairs).state_machine(gather, initial=list).extract())
    assert result.rows() == [("a", (1,)), ("b", (2,)), ("a", (1, 3))]


def test_none_is_a_state():
    def once(key, value, state):
        return None, [] if state is None else [key]

    pairs = [("a", 1), ("a", 2)]
    result = example(lambda scope: to_stream(scope, pairs).state_machine(once, initial="new").extract())
    assert result.rows() == ["a"]


def test_no_outputs_do_not_hold_the_frontier():
    def silent(key, value, state):
        return state, ()

    result = example(lambda scope: to_stream(scope, [("a", 1)]).state_machine(silent, initial=0).extract())
    assert result.rows() == []


def test_a_list_as_initial_state():
    with pytest.raises(SharedInitial, match="operator 'state_machine' received initial="):
        example(lambda scope: to_stream(scope, [("a", 1)]).state_machine(lambda k, v, s: (s, [1]), initial=[]))


@pytest.mark.parametrize("record", ["word", 7, ("a", 1, 2)])
def test_a_record_that_is_not_a_pair(record: Any):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [("a", 1), record]).state_machine(count, initial=0).extract())
    assert isinstance(caught.value.__cause__, RecordNotPair)
    assert str(caught.value.__cause__) == (
        f"operator 'state_machine' expects pairs (key, value), and received {record!r}; say `key=`, or put a `map` "
        f"before it"
    )


@pytest.mark.parametrize("fold", [lambda k, v, s: s, lambda k, v, s: (s, 1), lambda k, v: (v, [])])
def test_a_fold_of_the_wrong_shape(fold: Any):
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [("a", 1)]).state_machine(fold, initial=0).extract())
    assert isinstance(caught.value.__cause__, FoldMisreturned)
    assert "returns (state, outputs)" in str(caught.value.__cause__)
    assert "('a', 1)" in str(caught.value.__cause__)


@pytest.mark.parametrize("outputs", ["tea", b"tea", {"tea": 1}, ("tea", 1), (("tea", 1),), bytearray(b"tea")])
def test_a_single_output_where_a_list_belongs(outputs: Any):
    def fold(key, value, state):
        return state, outputs

    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: to_stream(scope, [("a", 1)]).state_machine(fold, initial=0).extract())
    line = f"fold ({__file__}:{fold.__code__.co_firstlineno})"
    assert isinstance(caught.value.__cause__, FoldMisreturned)
    assert str(caught.value.__cause__) == (
        f"operator 'state_machine' expects a fold that returns (state, outputs), with outputs a list or a generator; "
        f"{line} gave {outputs!r} as outputs for ('a', 1); to send that as one output, return [{outputs!r}]"
    )


@pytest.mark.parametrize("outputs", [[1, 2], (n for n in [1, 2]), {1: 0, 2: 0}.keys(), range(1, 3), iter([1, 2])])
def test_outputs_in_any_iterable(outputs: Any):
    result = example(
        lambda scope: to_stream(scope, [("a", 1)]).state_machine(lambda k, v, s: (s, outputs), initial=0).extract()
    )
    assert result.rows() == [1, 2]


@dataclass
class Seen:
    words: list[str]


@pytest.mark.parametrize(
    ("initial", "change", "sent"),
    [
        (list, list.append, lambda state: state),
        (lambda: None, None, lambda state: ("k", state)),
        (list, list.append, lambda state: ["k", state]),
        (list, list.append, lambda state: {"k": state}),
        (set, set.add, lambda state: ("k", state)),
        (dict, lambda state, word: state.setdefault("words", []).append(word), lambda state: ("k", state)),
        (lambda: Seen([]), lambda state, word: state.words.append(word), lambda state: state),
        (list, list.append, lambda state: ("k", ({"k": state}, 1))),
        (list, list.append, Seen),
        (lambda: ([], 0), lambda state, word: state[0].append(word), lambda state: state),
    ],
)
def test_a_state_that_was_sent_does_not_change(initial: Any, change: Any, sent: Any):
    """Whoever collects the outputs in the same process sees what another process would."""

    def fold(key, word, state):
        if change is None:
            state = [] if state is None else state
            state.append(word)
        else:
            change(state, word)
        outputs = [sent(state)]
        seen.append(repr(outputs[0]))
        return state, outputs

    seen: list[str] = []
    epochs = [(0, [("k", "tea"), ("k", "milk")]), (1, [("k", "sugar")])]
    result = example(lambda scope: iterator_source(scope, epochs).state_machine(fold, initial=initial).extract())
    assert [repr(row) for row in result.rows()] == seen
    assert len({*seen}) == 3


def test_a_state_that_is_not_sent_is_not_copied():
    states: list[Any] = []

    def fold(key, word, state):
        states.append(state)
        state.append(word)
        return state, [(key, len(state))]

    epochs = [(0, [("k", "tea"), ("k", "milk")]), (1, [("k", "sugar")])]
    example(lambda scope: iterator_source(scope, epochs).state_machine(fold, initial=list).extract())
    assert states[0] is states[1] is states[2]


def test_a_fold_that_raises():
    with pytest.raises(OperatorFailed) as caught:
        example(
            lambda scope: (
                iterator_source(scope, [(3, [("a", "x")])])
                .state_machine(lambda k, v, s: (int(v), []), initial=0)
                .extract()
            )
        )
    assert isinstance(caught.value.__cause__, ValueError)
    assert (caught.value.operator, caught.value.time) == ("state_machine", 3)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("pairs", [[([], 1)], [("a", 1), ([], 1)], [(frozenset(), 1)]])
def test_a_key_without_a_stable_hash(pairs: Any, workers: int):
    """What would fail on several workers fails on one as well."""
    with pytest.raises(OperatorFailed) as caught:
        run(lambda scope: to_stream(scope, pairs).state_machine(count, initial=0).extract(), seed=0, workers=workers)
    assert isinstance(caught.value.__cause__, UnsupportedKey)


def test_a_dropped_dataflow_gives_up_what_waits():
    """Nothing is left to the garbage collector, which would warn."""

    def main(worker):
        with worker.dataflow() as scope:
            input, now, stream = unordered_input(scope)
            stream.state_machine(count, initial=0).extract()
        with now, now.delayed(1) as later:
            input.send(later, ("a", 1))
            worker.step()
            worker.step()
            worker.drop_dataflow(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        execute(main)
        gc.collect()
    assert caught == []


def words_of(worker: int, seed: int) -> list[tuple[int, list[str]]]:
    random = Random(f"{seed} {worker}")
    return [(epoch, random.choices("abcdefg", k=random.randrange(6))) for epoch in range(8)]


@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_cluster_it_equals_a_loop_over_the_epochs(seed: int):
    def build(scope):
        words = iterator_source(scope, words_of(scope.worker.index, seed))
        return words.map(lambda word: (word, 1)).state_machine(count, initial=0).extract()

    totals: dict[str, int] = {}
    expected: dict[Any, list[tuple[str, int]]] = {}
    for epoch in range(8):
        for worker in range(3):
            for word in words_of(worker, seed)[epoch][1]:
                totals[word] = totals.get(word, 0) + 1
                expected.setdefault(epoch, []).append((word, totals[word]))
    results = run(build, seed=seed)
    assert merged(results) == {epoch: sorted(rows) for epoch, rows in expected.items()}
    for worker, result in enumerate(results):
        assert {stable_hash(word) % 3 for word, _ in result.rows()} <= {worker}


def test_in_a_nested_scope_a_record_waits_only_for_what_is_earlier():
    """Of two that wait, the one with the larger outer time may be free to go first."""
    log, applied = EventLog(), list[str]()

    def fold(key, value, state):
        applied.append(value)
        return state, ()

    def main(worker):
        with worker.dataflow() as scope, scope.iterative() as inner:
            replay(inner, [log]).state_machine(fold, initial=None).extract()
        steps: list[tuple[CapturedEvent, list[str]]] = [
            (MessagesEvent(Product(0, 4), [("k", "(0, 4)")]), []),
            (MessagesEvent(Product(1, 0), [("k", "(1, 0)")]), []),
            (ProgressEvent(((Product(0, 3), 1), (Product(1, 0), 1), (Product(0, 0), -1))), ["(1, 0)"]),
            (ProgressEvent(((Product(0, 3), -1),)), ["(1, 0)", "(0, 4)"]),
            (ProgressEvent(((Product(1, 0), -1),)), ["(1, 0)", "(0, 4)"]),
        ]
        for event, expected in steps:
            log.push(event)
            for _ in range(5):
                worker.step()
            assert applied == expected

    execute(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_nested_scope_no_record_is_applied_before_an_earlier_one(seed: int):
    """Times are pairs there, and not all of them are ordered."""

    def stamp(input, output):
        for capability, rows in input:
            stamped = (capability.time.outer, capability.time.inner)
            output.session(capability).give_container([(row % 2, (stamped, row)) for row in rows])

    applied: dict[int, list[tuple[int, int]]] = {0: [], 1: []}

    def build(scope):
        def keep(key, value, state):
            applied[scope.worker.index].append(value[0])
            return None, [(key, value)]

        def body(variable):
            folded = variable.unary(stamp).state_machine(keep, initial=None)
            rows = folded.map(lambda pair: pair[1][1])
            return rows.filter(lambda n: n >= 10).map(lambda n: n - 10), rows

        return iterator_source(scope, [(e, [35 + e, 20 + e]) for e in range(4)]).iterate(body).extract()

    results = run(build, seed=seed, workers=2)
    rounds = {e: sorted(n - 10 * r for n in (35 + e, 20 + e) for r in range(n // 10 + 1)) for e in range(4)}
    assert merged(results) == {epoch: sorted(2 * rows) for epoch, rows in rounds.items()}
    for order in applied.values():
        for index, earlier in enumerate(order):
            for later in order[index + 1 :]:
                assert not (later[0] <= earlier[0] and later[1] <= earlier[1] and later != earlier), (earlier, later)
