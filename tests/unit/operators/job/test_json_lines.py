"""Records as JSON: what JSON has goes through, the rest has one form or is refused."""

from __future__ import annotations

import json
from collections import Counter, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from operators.errors import OutputFailed
from operators.job.json_lines import JsonLines

Point = namedtuple("Point", ["x", "y"])


@dataclass
class Order:
    item: str
    paid: Decimal


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


PLAIN = [
    ("tea", 1),
    ["tea", 1.5, True, None],
    {"word": "tea", "counts": [1, {"of": (2, 3)}]},
    "Tee & Kuchen – 茶\n",
    10**30,
    [],
    {},
]


def written(*rows: Any, **options: Any) -> list[Any]:
    """What a reader of JSON makes of it."""
    return [json.loads(line) for line in JsonLines("counts", **options).lines(rows).decode().splitlines()]


def test_what_json_has_is_written_as_the_library_does():
    assert (
        JsonLines("counts").lines(PLAIN)
        == "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in PLAIN).encode()
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (datetime(2026, 1, 1, 12, 30, tzinfo=UTC), "2026-01-01T12:30:00+00:00"),
        (datetime(2026, 1, 1), "2026-01-01T00:00:00"),
        (date(2026, 1, 1), "2026-01-01"),
        (time(12, 30), "12:30:00"),
        (timedelta(days=1, seconds=2, microseconds=3), "P1DT2.000003S"),
        (-timedelta(hours=1), "-P0DT3600S"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\xff\x00", "/wA="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"a"}), ["a"]),
        (Point(1, date(2026, 1, 1)), {"x": 1, "y": "2026-01-01"}),
        (Order("tea", Decimal("1.10")), {"item": "tea", "paid": "1.10"}),
        (Colour.RED, "red"),
        ([Level.LOW, {Level.LOW}], [1, [1]]),
        (Counter("aab"), {"a": 2, "b": 1}),
        ({1: "a", date(2026, 1, 1): "b"}, {"1": "a", "2026-01-01": "b"}),
        ((np.int64(1), np.float32(0.5), np.bool_(True), np.longdouble(0.5)), [1, 0.5, True, 0.5]),
        (deque([1, UUID(int=1)]), [1, "00000000-0000-0000-0000-000000000001"]),
    ],
)
def test_the_rest_has_one_form_wherever_it_occurs(record: Any, expected: Any):
    assert written(record, [record], {"in": (record, 1)}) == [expected, [expected], {"in": [expected, 1]}]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (("a", 1j), "cannot write a complex as JSON; map it to what JSON has"),
        (("a", object), "cannot write a type as JSON"),
        (np.timedelta64(3, "ns"), "cannot write a timedelta64 as JSON"),
        (np.timedelta64("NaT"), "cannot write a timedelta64 as JSON"),
        (("a", float("nan")), "cannot write the number nan as JSON; write None in its place, or ask for it"),
        ({"a": [float("inf")]}, "cannot write the number inf as JSON"),
        ([Decimal("NaN")], "cannot write the number NaN as JSON"),
        ({("a", 1): 2}, "cannot write a dict with the key ('a', 1) as JSON; keys are text or integers"),
        ({True: 2}, "cannot write a dict with the key True as JSON"),
        ({1: 2, "1": 3}, "cannot write a dict with two keys that are both '1' as JSON"),
        (["\ud800"], "cannot write text with half of a surrogate pair"),
    ],
)
def test_what_has_no_form_is_refused_with_the_output_and_the_record(record: Any, complaint: str):
    with pytest.raises(OutputFailed) as refused:
        JsonLines("counts").lines([("fine", 0), record])
    assert str(refused.value).startswith(f"output 'counts' {complaint}")
    assert refused.value.__notes__ == [f"the record was {record!r}"]


def test_a_record_that_contains_itself_or_is_nested_deeply_is_refused():
    record: list[Any] = []
    record.append(record)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    complaint = "output 'counts' cannot write a record that is nested so deeply, or contains itself, as JSON"
    for each in (record, deep):
        with pytest.raises(OutputFailed, match=complaint):
            JsonLines("counts").lines([each])


def test_numbers_that_are_none_can_be_asked_for():
    numbers = (float("inf"), [Decimal("-Infinity"), 1.5])
    assert JsonLines("counts", allow_nan=True).lines([numbers, {"n": float("nan")}]) == (
        b'[Infinity, ["-Infinity", 1.5]]\n{"n": NaN}\n'
    )


def test_a_byte_that_is_no_text_comes_out_as_it_came_in():
    record = (b"caf\xe9".decode("utf-8", "surrogateescape"), 1)
    assert JsonLines("counts").lines([record, (date(2026, 1, 1), *record)], before="> ", after=" <") == (
        b'> ["caf\xe9", 1] <\n> ["2026-01-01", "caf\xe9", 1] <\n'
    )
