"""The operators on columns, and what is found out about a job of columns while it is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.dataflow.scope import Scope
from framework.errors import GraphError, OperatorFailed
from framework.launch.execute import example, execute
from framework.launch.report import render
from framework.worker.worker import Worker
from operators import EventLog, EventReader, EventWriter, Probe, iterator_source, replay, to_stream
from operators.columns import ColumnInput, Columns, column_input, split_words
from operators.errors import FoldNotCompiled, RecordUnfit, RouteOutOfRange, ValueUnfit
from tests.unit.operators.cluster import SEEDS, all_numbers, merged, numbers, run

SALES = [("tea", 3), ("milk", 1), ("tea", 5), ("rum", 40)]
SCHEMA = {"what": str, "cents": int}


def sales(scope: Scope) -> Columns:
    return to_stream(scope, SALES).to_columns(SCHEMA)


def all_sent(scope: Scope) -> Columns:
    """What a worker of a cluster sends."""
    return iterator_source(scope, numbers(scope.worker.index)).to_columns({"n": int})


def extracted(build: Callable[[Columns], Columns]) -> list[Any]:
    return example(lambda scope: build(sales(scope)).extract()).rows()


def ints(batch: pa.RecordBatch, column: str) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = batch[column].to_numpy()
    return array


# Batch by batch


def test_map_replaces_batches_and_tells_their_schema():
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"double": pc.multiply(batch["cents"], 2), "what": batch["what"]})

    def build(scope: Scope) -> Any:
        mapped = sales(scope).map(doubled)
        assert mapped.schema == pa.schema({"double": pa.int64(), "what": pa.string()})
        return mapped.extract()

    assert example(build).rows() == [(6, "tea"), (2, "milk"), (10, "tea"), (80, "rum")]


def test_map_believes_the_schema_that_it_is_told_until_it_sees_another():
    with pytest.raises(OperatorFailed) as caught:
        extracted(lambda columns: columns.map(lambda batch: batch.select(["what"]), schema={"wrong": str}))
    assert str(caught.value.__cause__) == (
        "operator 'map' is to give batches of (wrong: string), and gave (what: string)"
    )


def test_map_keeps_the_number_of_rows():
    with pytest.raises(OperatorFailed) as caught:
        extracted(lambda columns: columns.map(lambda batch: batch.slice(1)))
    assert str(caught.value.__cause__) == (
        "operator 'map' received 4 rows and gave 3; `flat_map` takes a function that changes their number"
    )


def test_flat_map_changes_the_number_of_rows():
    assert extracted(lambda columns: columns.flat_map(lambda batch: batch.slice(1, 2))) == SALES[1:3]
    assert extracted(lambda columns: columns.flat_map(lambda batch: batch.slice(9))) == []


def test_filter_keeps_rows_and_drops_those_of_which_nothing_is_known():
    assert extracted(lambda columns: columns.filter(lambda batch: pc.less(batch["cents"], 5))) == SALES[:2]
    some = [("a", None), ("b", 1)]
    found = example(
        lambda scope: (
            to_stream(scope, some).to_columns(SCHEMA).filter(lambda batch: pc.equal(batch["cents"], 1)).extract()
        )
    )
    assert found.rows() == [("b", 1)]


@pytest.mark.parametrize("operator", ["map", "flat_map", "filter"])
def test_a_function_that_fails_on_no_rows_is_found_out_while_building(operator: str):
    with pytest.raises(GraphError) as caught:
        extracted(lambda columns: getattr(columns, operator)(lambda batch: batch["price"]))
    assert str(caught.value).startswith(
        f"operator {operator!r} cannot take batches of (what: string, cents: int64): its function, called on an empty "
        f"one, raised KeyError: "
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_that_returns_no_batch_is_found_out_while_building():
    with pytest.raises(GraphError, match=r"^operator 'map' takes a function that returns a batch, and it returned a "):
        extracted(lambda columns: columns.map(lambda batch: batch["cents"]))


def test_inspect_sees_batches_and_passes_them_on():
    seen: list[Any] = []
    rows = [(0, ["tea", "milk"]), (3, ["tea"])]

    def build(scope: Scope) -> Any:
        words = iterator_source(scope, rows).to_columns({"word": str})
        return (
            words.inspect(lambda batch: seen.append(batch.to_pydict()))
            .inspect_batch(lambda time, batch: seen.append((time, len(batch))))
            .extract()
        )

    assert example(build).by_time() == dict(rows)
    assert seen == [{"word": ["tea", "milk"]}, (0, 2), {"word": ["tea"]}, (3, 1)]


# Streams out of streams


def test_partition_sends_each_row_where_its_number_says():
    def build(scope: Scope) -> Any:
        parts = sales(scope).partition(3, lambda batch: pc.if_else(pc.greater(batch["cents"], 4), 2, 0))
        return [part.extract() for part in parts]

    assert [part.rows() for part in example(build)] == [SALES[:2], [], SALES[2:]]


def test_partition_names_a_row_that_goes_nowhere():
    with pytest.raises(OperatorFailed) as caught:
        example(lambda scope: sales(scope).partition(4, lambda batch: ints(batch, "cents"))[0].extract())
    assert isinstance(caught.value.__cause__, RouteOutOfRange)
    assert str(caught.value.__cause__) == (
        "operator 'partition' has outputs 0 to 3, and its route gave 5 for {'what': 'tea', 'cents': 5}"
    )


@pytest.mark.parametrize("route", [lambda batch: [0], lambda batch: batch["what"], lambda batch: [0.5] * len(batch)])
@pytest.mark.parametrize("operator", ["partition", "exchange"])
def test_a_route_is_an_integer_for_each_row(route: Any, operator: str):
    def build(scope: Scope) -> None:
        if operator == "partition":
            sales(scope).partition(2, route)
        else:
            sales(scope).exchange(route)

    with pytest.raises(OperatorFailed) as caught:
        run(build, seed=0, workers=2)
    assert isinstance(caught.value.__cause__, RouteOutOfRange)
    assert f"operator '{operator}' wants an integer for each of 4 rows" in str(caught.value.__cause__)


def test_partition_has_at_least_one_part():
    with pytest.raises(GraphError, match="'partition' splits a stream into at least 1, not into 0"):
        example(lambda scope: sales(scope).partition(0, lambda batch: []))


def test_concat_puts_streams_of_one_schema_together():
    assert sorted(extracted(lambda columns: columns.concat(columns, columns))) == sorted(SALES * 3)


def test_concat_refuses_another_schema_and_rows():
    def other(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["what"])

    with pytest.raises(GraphError, match="'concat' puts streams of one schema together, and these differ:") as caught:
        extracted(lambda columns: columns.concat(columns.map(other)))
    assert "cents: int64" in str(caught.value)
    with pytest.raises(GraphError, match=r"columns and rows together; turn the rows into columns with `\.to_columns"):
        example(lambda scope: sales(scope).concat(to_stream(scope, SALES)))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match=r"rows and columns together; turn the columns into rows with `\.to_rows"):
        example(lambda scope: to_stream(scope, SALES).concat(sales(scope)))  # type: ignore[arg-type]


# Between workers


@pytest.mark.parametrize("seed", SEEDS)
def test_exchange_brings_rows_to_the_worker_that_is_named(seed: int):
    results = run(lambda scope: all_sent(scope).exchange(lambda batch: ints(batch, "n") - 7).extract(), seed=seed)
    assert merged(results) == all_numbers()
    assert [{(n - 7) % 3 for n in result.rows()} for result in results] == [{0}, {1}, {2}]


KEYS = [("tea", 1), ("milk", None), (None, 3), ("", 2**60), ("rum", -1), *((f"word {n}", n) for n in range(30))]


@pytest.mark.parametrize("key", ["word", "n", ["word", "n"], ["n", "word"]])
@pytest.mark.parametrize("seed", SEEDS)
def test_exchange_by_sends_a_key_where_rows_send_it(key: Any, seed: int):
    places = [("word", "n").index(name) for name in ([key] if isinstance(key, str) else key)]

    def key_of(row: Any) -> Any:
        return row[places[0]] if len(places) == 1 else tuple(row[place] for place in places)

    def build(scope: Scope) -> Any:
        rows = to_stream(scope, KEYS if scope.worker.index == 1 else [])
        columns = rows.to_columns({"word": str, "n": int})
        return columns.exchange_by(key).extract(), rows.exchange_by(key_of).extract()

    results = run(build, seed=seed)
    assert [one.rows() for one, _ in results] == [other.rows() for _, other in results]
    assert all(one.rows() for one, _ in results)


def test_exchange_by_needs_columns_that_are_there_and_can_be_keys():
    with pytest.raises(GraphError, match="operator 'exchange_by' has no column 'price'; it has 'what', 'cents'"):
        extracted(lambda columns: columns.exchange_by("price"))
    with pytest.raises(GraphError, match=r"column 'tags' is list<.*> and cannot be a key"):
        example(lambda scope: to_stream(scope, []).to_columns({"tags": list[str]}).exchange_by("tags"))


@pytest.mark.parametrize("seed", SEEDS)
def test_deal_gives_every_worker_a_share(seed: int):
    rows = list(range(90))
    results = run(
        lambda scope: to_stream(scope, rows if scope.worker.index == 0 else []).to_columns({"n": int}).deal().extract(),
        seed=seed,
    )
    assert sorted(n for result in results for n in result.rows()) == rows
    assert [len(result.rows()) for result in results] == [30, 30, 30]


@pytest.mark.parametrize("seed", SEEDS)
def test_broadcast_brings_everything_to_everybody(seed: int):
    for result in run(lambda scope: all_sent(scope).broadcast().extract(), seed=seed):
        assert merged([result]) == all_numbers()


# In and out


def test_a_column_input_sends_batches_at_its_epoch():
    def main(worker: Worker) -> Any:
        words, probe = ColumnInput({"word": str}, "words"), Probe()
        with worker.dataflow() as scope:
            result = words.stream(scope).probe(probe).extract()
        words.send(pa.record_batch({"word": ["tea", "milk"]}))
        words.advance_to(4)
        assert words.time == 4
        worker.step_while(lambda: probe.less_than(4))
        assert result.by_time() == {0: ["tea", "milk"]}
        words.send(pa.record_batch({"word": pa.array([], pa.string())}))
        words.send(pa.record_batch({"word": ["rum"]}))
        words.close()
        worker.step_while(lambda: not probe.done())
        return result

    [result] = execute(main)
    assert result.by_time() == {0: ["tea", "milk"], 4: ["rum"]}


def test_a_column_input_sends_large_batches_in_slices_and_small_ones_are_joined(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(column_input, "ROWS_MAX", 10_000)
    sizes: list[int] = []

    def main(worker: Worker) -> Any:
        input = ColumnInput({"n": int})
        with worker.dataflow() as scope:
            result = input.stream(scope).inspect(lambda batch: sizes.append(len(batch))).extract()
        input.send(pa.record_batch({"n": range(25_000)}))
        input.advance_to(1)
        for number in range(3):
            input.send(pa.record_batch({"n": [number]}))
        return result

    [result] = execute(main)
    assert result.by_time() == {0: list(range(25_000)), 1: [0, 1, 2]}
    assert sizes == [10_000, 10_000, 5_000, 3]


@pytest.mark.parametrize("wrong", [pa.record_batch({"n": [1]}), pa.record_batch({"word": [1]}), ["tea"]])
def test_a_column_input_refuses_what_does_not_fit(wrong: Any):
    def main(worker: Worker) -> None:
        words = ColumnInput({"word": str}, "words")
        with worker.dataflow() as scope:
            words.stream(scope)
        words.send(wrong)

    with pytest.raises(RecordUnfit, match=r"^input 'words' takes batches of\nword: string\nand got\n"):
        execute(main)


@pytest.mark.parametrize("kind", ["log", "file"])
def test_what_was_captured_is_replayed(kind: str, tmp_path: Path):
    epochs = [(0, SALES[:3]), (5, SALES[3:])]
    sink: Any = EventLog() if kind == "log" else EventWriter(tmp_path / "sales")
    example(lambda scope: iterator_source(scope, epochs).to_columns(SCHEMA).capture(sink))
    source: Any = sink if kind == "log" else EventReader(tmp_path / "sales")
    found: list[pa.Schema] = []

    def build(scope: Scope) -> Any:
        columns = Columns(replay(scope, [source]).outlet, pa.schema({"what": pa.string(), "cents": pa.int64()}))
        return columns.inspect(lambda batch: found.append(batch.schema)).extract()

    assert example(build).by_time() == dict(epochs)
    assert found == [pa.schema({"what": pa.string(), "cents": pa.int64()})] * 2


def test_columns_go_into_a_scope_and_out_again():
    def build(scope: Scope) -> Any:
        with scope.region("inner") as inner:
            left = sales(scope).enter(inner).filter(lambda batch: pc.greater(batch["cents"], 2)).leave()
        return left.extract()

    assert example(build).rows() == [SALES[0], *SALES[2:]]


@pytest.mark.parametrize("name", ["session_window", "stateful_join", "aggregate", "unary", "branch"])
def test_what_rows_can_do_is_offered_to_columns_by_way_of_rows(name: str):
    if name in vars(Columns):
        pytest.skip("columns have learned it")
    with pytest.raises(GraphError, match=f"^a stream of columns has no `{name}`, one of rows does; turn it into rows"):
        example(lambda scope: getattr(sales(scope), name))


def test_what_nobody_can_do_is_an_attribute_error():
    with pytest.raises(AttributeError, match="a stream of columns has no 'fly'"):
        example(lambda scope: sales(scope).fly())


# Words

SPACES = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2005\u200a\u2028\u2029\u202f\u205f\u3000"
NO_SPACES = "aß€😀\0\x08\x1b!\x84\u00c2\u200b\u2060\u180e\u2027\u2030\u3001\ufeff\u1681\U000e0020"
LINES = st.one_of(st.text(), st.text(st.sampled_from(SPACES + NO_SPACES)), st.none())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@given(data=st.data())
def test_words_are_those_of_python(kind: pa.DataType, data: st.DataObject):
    lines = data.draw(st.lists(LINES, max_size=8))
    start = data.draw(st.integers(0, len(lines)))
    stop = data.draw(st.integers(start, len(lines)))
    batch = pa.record_batch({"n": pa.array(range(len(lines)), pa.int8()), "line": pa.array(lines, kind)})
    found = split_words("line")(batch.slice(start, stop - start))
    found.validate(full=True)
    assert found.to_pydict() == {"word": [word for line in lines[start:stop] for word in (line or "").split()]}
    assert found.schema.types == [kind]


def test_every_white_space_of_unicode_ends_a_word():
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    spaces = [letter for letter in letters if letter.isspace()]
    text = "".join(f"a{letter}b " for letter in (*spaces, *letters[:0x4000]))
    batch = pa.record_batch({"line": [text]})
    assert split_words("line", into="w")(batch).to_pydict() == {"w": text.split()}


def test_words_are_in_strings():
    with pytest.raises(GraphError, match="column 'cents' is int64, and words are in strings"):
        extracted(lambda columns: columns.flat_map(split_words("cents")))


# Folds that cannot be compiled

WEIGHTS = [1, 2]


def count(key: Any, n: int, total: int) -> Any:
    total += n
    return total, [(key, total)]


def exclaims(key: Any, n: int, total: int) -> Any:
    total += n
    return total, [(key + "!", total)]


def adds_to_key(key: Any, n: int, total: int) -> Any:
    total += key + 1
    return total, [(key, total)]


def louder(text: Any) -> Any:
    return text + "!"


def calls_a_helper(key: Any, n: int, total: int) -> Any:
    total += n
    if louder(key):
        total += 1
    return total, [(key, total)]


def returns_a_list(key: Any, n: int, total: int) -> Any:
    total += n
    outputs = [(key, total)]
    return total, outputs


def takes_two(key: Any, total: int) -> Any:
    return total, [(key, total)]


def weighs(key: Any, n: int, total: int) -> Any:
    total += WEIGHTS[0]
    return total, [(key, total)]


def halves(key: Any, n: int, total: int) -> Any:
    total += n
    return total / 2, [(key, total)]


def halves_in_a_branch(key: Any, n: int, total: int) -> Any:
    total += n
    if n > 3:
        return total, [(key, total / 2)]
    return total, [(key, total)]


def returns_the_state_only(key: Any, n: int, total: int) -> Any:
    return total + n


def returns_nothing(key: Any, n: int, total: int) -> Any:
    total += n


def returns_three_columns(key: Any, n: int, total: int) -> Any:
    return total, [(key, total, n)]


def returns_two_states(key: Any, n: int, total: int) -> Any:
    return (total, n), [(key, total)]


def key_here_and_there(key: Any, n: int, total: int) -> Any:
    return total, [(key, total), (n, total)]


def tries(key: Any, n: int, total: int) -> Any:
    try:
        total += n
    finally:
        total += 1
    return total, [(key, total)]


def remembers(key: Any, n: int, total: int) -> Any:
    global WEIGHTS
    return total, [(key, total)]


def misspells(key: Any, n: int, total: int) -> Any:
    return totl, [(key, total)]  # type: ignore[name-defined]  # noqa: F821


def folded(columns: Columns, fold: Any, **changed: Any) -> Columns:
    given = {"key": "what", "value": "cents", "state": {"total": int}, "initial": 0}
    return columns.stateful_state_machine(
        fold, **{**given, "output": {"what": str, "total": int}, "name": "folded", **changed}
    )


@pytest.mark.parametrize(
    ("fold", "line", "reason"),
    [
        (exclaims, 'return total, [(key + "!", total)]', "column 0 of the output is no number"),
        (adds_to_key, "total += key + 1", "there is no add(none, "),
        (calls_a_helper, "if louder(key):", "there is no add(none, "),
        (returns_a_list, "return total, outputs", "outputs are listed where they are returned"),
        (takes_two, "def takes_two(key: Any, total: int) -> Any:", "a fold takes three arguments: key, value, state"),
        (weighs, "total += WEIGHTS[0]", "'WEIGHTS' is a list; a fold may refer to numbers"),
        (halves, "return total / 2, [(key, total)]", "a column declared as an integer is given a float"),
        (halves_in_a_branch, "return total, [(key, total / 2)]", "a column declared as an integer is given a float"),
        (returns_the_state_only, "return total + n", "a fold returns two things, the new state and a list"),
        (returns_nothing, "def returns_nothing(key: Any, n: int, total: int) -> Any:", "it returns nothing"),
        (returns_three_columns, "return total, [(key, total, n)]", "an output of 3 values does not fit the 2 columns"),
        (returns_two_states, "return (total, n), [(key, total)]", "a state of 2 values does not fit the 1 of `state`"),
        (key_here_and_there, "return total, [(key, total), (n, total)]", "column 0 of the output"),
        (tries, "try:", "`try` has no place in a fold"),
        (remembers, "global WEIGHTS", "a fold keeps nothing but its state"),
        (misspells, "return totl, [(key, total)]", "'totl' is not defined"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_fold_that_cannot_be_compiled_is_refused_with_its_line(fold: Any, line: str, reason: str):
    lines, first = inspect.getsourcelines(fold)
    [at] = [at for at, text in enumerate(lines) if text.strip().startswith(line)]
    with pytest.raises(FoldNotCompiled) as caught:
        extracted(lambda columns: folded(columns, fold))
    quoted, why, advice = str(caught.value).splitlines()
    assert quoted.startswith(f"{__file__}:{first + at}: {line}")
    assert why.startswith(f"  cannot be compiled: {reason}")
    assert ".to_rows(), then the same fold" in advice


def number_or_key(key: int, n: int, total: int) -> Any:
    if n > 3:
        return total, [(n, total)]
    return total, [(key, total)]


def test_an_output_that_is_the_key_only_sometimes_is_refused_in_whatever_order():
    with pytest.raises(FoldNotCompiled, match="part of the key in one place, and not in another"):
        extracted(lambda columns: folded(columns, number_or_key, key="cents", output={"cents": int, "total": int}))


def test_a_lambda_is_not_compiled():
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    fold = lambda key, n, total: (total, [(key, total)])  # noqa: E731
    with pytest.raises(FoldNotCompiled) as caught:
        extracted(lambda columns: folded(columns, fold))
    text = str(caught.value)
    assert text.startswith(f"{__file__}:{line}: fold = lambda key, n, total: (total, [(key, total)])")
    assert "<lambda> is not a function written with `def`, and only such are compiled; write one, or use rows" in text


def test_a_part_of_the_key_that_is_not_there():
    def third(key: Any, n: int, total: int) -> Any:
        return total, [(key[2], total)]

    def in_three(key: Any, n: int, total: int) -> Any:
        _, _, three = key
        return total, [(three, total)]

    for fold, line in ((third, r"return total, \[\(key\[2\], total\)\]"), (in_three, "_, _, three = key")):
        with pytest.raises(FoldNotCompiled, match=f"{line}\n  cannot be compiled: the key has 2 columns"):
            extracted(lambda columns, fold=fold: folded(columns, fold, key=["what", "cents"]))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"key": "price"}, GraphError, "operator 'folded' has no column 'price'; it has 'what', 'cents'"),
        ({"value": "price"}, GraphError, "operator 'folded' has no column 'price'; it has 'what', 'cents'"),
        ({"value": "what"}, FoldNotCompiled, "value 'what' is string, and compiled code works on numbers"),
        ({"state": {"text": str}}, FoldNotCompiled, "state 'text' is string, and compiled code works on numbers"),
        ({"output": {"what": bytes, "n": int}}, FoldNotCompiled, "output 'what' is declared binary, and it is the key"),
        ({"initial": (0, 0)}, GraphError, "has a state of 1 columns, and initial=(0, 0) has 2"),
        ({"initial": 0.5}, GraphError, "has a state 'total' of int64, and its initial value is 0.5"),
        ({"initial": int}, GraphError, "has a state 'total' of int64, and its initial value is <class 'int'>"),
    ],
    ids=str,
)
def test_columns_that_do_not_fit_a_fold(changed: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=re.escape(message)):
        extracted(lambda columns: folded(columns, count, **changed))


def parses(batch: pa.RecordBatch) -> pa.RecordBatch:
    return inner(batch)


def inner(batch: pa.RecordBatch) -> pa.RecordBatch:
    text = b"".join(batch["what"].cast(pa.binary()).to_pylist())
    return pa.json.read_json(pa.BufferReader(text)).to_batches()[0]


@pytest.mark.parametrize("operator", ["flat_map", "filter"])
def test_a_function_that_fails_on_an_empty_batch_is_told_with_its_line(operator: str):
    with pytest.raises(GraphError) as caught:
        extracted(lambda columns: getattr(columns, operator)(parses))
    assert str(caught.value) == (
        f"operator {operator!r} cannot take batches of (what: string, cents: int64): its function, called on an empty "
        f"one, raised ArrowInvalid: Empty JSON file\n  {__file__}:{inner.__code__.co_firstlineno + 2}: "
        f"return pa.json.read_json(pa.BufferReader(text)).to_batches()[0]"
    )


def divides(key: Any, n: int, total: int) -> Any:
    total += 100 // (n - 1)
    return total, [(key, total)]


def test_an_error_in_a_fold_names_the_record_and_the_line():
    with pytest.raises(OperatorFailed, match="'folded'") as caught:
        extracted(lambda columns: folded(columns, divides))
    assert render(caught.value, 0).splitlines()[1:] == [
        "  ZeroDivisionError: integer division or modulo by zero",
        "  the record was {'what': 'milk', 'cents': 1}",
        f"    {__file__}:{divides.__code__.co_firstlineno + 1}, in divides",
        "      total += 100 // (n - 1)",
    ]


def divides_later(key: Any, value: Any, state: Any) -> Any:
    total, mean, seen = state
    total += value
    if seen:
        mean = 1.0 / (2.5 - mean)
    return (total, mean + 1.5, True), [(key[0], total)]


@pytest.mark.parametrize("emit", ["record", "epoch"])
def test_an_error_that_a_state_leads_to_names_the_line(emit: str):
    """Of three columns, a number each time the same as in compiled code."""
    sales = [("tea", 1, 3), ("milk", 1, 0), ("tea", 1, 4), ("tea", 2, 5), ("tea", 1, 6)]

    def build(scope: Scope) -> Any:
        columns = to_stream(scope, sales).to_columns({"what": str, "size": int, "cents": int})
        return columns.stateful_state_machine(
            divides_later,
            key=["what", "size"],
            value="cents",
            state={"total": int, "mean": float, "seen": bool},
            initial=(0, 0.0, False),
            output={"what": str, "total": int},
            emit=emit,  # type: ignore[arg-type]
        ).extract()

    with pytest.raises(OperatorFailed) as caught:
        example(build)
    assert render(caught.value, 0).splitlines()[1:] == [
        "  ZeroDivisionError: float division by zero",
        "  the record was {'what': 'tea', 'size': 1, 'cents': 6}",
        f"    {__file__}:{divides_later.__code__.co_firstlineno + 4}, in divides_later",
        "      mean = 1.0 / (2.5 - mean)",
    ]


def test_a_value_that_is_null_names_the_record():
    some = [("tea", 1), ("milk", None)]
    with pytest.raises(OperatorFailed, match="'folded'") as caught:
        example(lambda scope: folded(to_stream(scope, some).to_columns(SCHEMA), count))
    assert isinstance(caught.value.__cause__, ValueUnfit)
    assert str(caught.value.__cause__).startswith("column 'cents' is null in {'what': 'milk', 'cents': None}, and ")


def test_floats_of_16_bits_are_keys_and_values():
    half = np.float16(0.5)
    found = example(
        lambda scope: folded(
            to_stream(scope, [(half, half), (half, half)]).to_columns({"what": pa.float16(), "cents": pa.float16()}),
            count,
            state={"total": float},
            initial=0.25,
            output={"what": pa.float16(), "total": float},
        ).extract()
    )
    assert found.rows() == [(half, 0.75), (half, 1.25)]


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        (pa.bool_(), True),
        (pa.int8(), 1),
        (pa.uint64(), 2**63),
        (pa.float16(), np.float16(0.5)),
        (pa.date32(), date(1969, 1, 1)),
    ],
    ids=str,
)
def test_a_key_of_any_type_may_be_null(kind: pa.DataType, some: object):
    rows = [(some, 1), (None, 1), (some, 2), (None, 3)]

    def build(scope: Scope) -> Any:
        columns = to_stream(scope, rows).to_columns({"what": kind, "cents": int})
        return folded(columns, count, output={"what": kind, "total": int}).extract()

    found = example(build)
    assert found.rows() == [(some, 1), (None, 1), (some, 3), (None, 4)]
