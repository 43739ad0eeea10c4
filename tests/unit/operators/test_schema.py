"""Schemas in Python's types, and records as columns and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from framework.errors import GraphError
from operators.errors import RecordUnfit
from operators.schema import arrow_schema, batch_of, rows_of

NESTED = {"user": str, "tags": list[str], "scores": dict[str, float], "place": {"x": int, "y": int | None}}


def test_python_types_stand_for_arrows():
    declared = {
        "a": str,
        "b": int,
        "c": float,
        "d": bool,
        "e": bytes,
        "f": date,
        "g": datetime,
        "h": Decimal,
        "i": timedelta,
        "j": pa.int16(),
        "k": str | None,
    }
    types = [
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", tz="UTC"),
        pa.decimal128(38, 18),
        pa.duration("us"),
        pa.int16(),
        pa.string(),
    ]
    assert arrow_schema(declared) == pa.schema(list(zip(declared, types, strict=True)))
    assert arrow_schema(NESTED) == pa.schema(
        [
            ("user", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("scores", pa.map_(pa.string(), pa.float64())),
            ("place", pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        ]
    )
    assert arrow_schema(arrow_schema(NESTED)) == arrow_schema(NESTED)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({}, "a schema is a mapping of names to types"),
        (str, "a schema is a mapping of names to types"),
        ({"tags": list}, "column 'tags' has the type <class 'list'>"),
        ({"place": {"x": complex}}, "column 'place.x' has the type <class 'complex'>, which no Arrow type stands for"),
        ({"tags": list[set]}, r"column 'tags\[\]' has the type <class 'set'>"),
        ({"either": int | str}, "column 'either' has the type int | str"),
    ],
)
def test_what_has_no_arrow_type_is_refused(schema: Any, said: str):
    with pytest.raises(GraphError, match=said):
        arrow_schema(schema)


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        ({"word": str}, ["tea", None, ""]),
        ({"word": str, "count": int}, [("tea", 1), ("milk", None)]),
        ({"at": datetime, "on": date}, [(datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2))]),
        (NESTED, [("ann", ["x", None], [("a", 0.5)], {"x": 1, "y": None}), (None, [], [], None)]),
        ({"price": Decimal, "raw": bytes}, [(Decimal("1.500000000000000000"), b"\x00")]),
    ],
)
def test_rows_come_back_as_they_were(schema: Any, rows: list[Any]):
    assert rows_of(batch_of(rows, arrow_schema(schema), "here")) == rows


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("tea", 1), ("milk", "two")],
            r"output 'counts' takes \(word: string, count: int64\), and got \('milk', 'two'\)",
        ),
        ([("tea", 1), ("milk", 1.5)], r"and got \('milk', 1.5\): Arrow would cut off"),
        ([("tea", 1), (7, 1)], r"and got \(7, 1\)"),
        ([("tea", 1), ("tea", 1, 1)], r"and got \('tea', 1, 1\): 3 columns instead of 2"),
        ([("tea", 1), "t"], "and got 't': 1 columns instead of 2"),
        ([("tea", 2**63)], r"and got \('tea', 9223372036854775808\)"),
        ([7], "and got 7: "),
    ],
)
def test_a_record_that_does_not_fit_is_named(rows: list[Any], said: str):
    with pytest.raises(RecordUnfit, match=said):
        batch_of(rows, arrow_schema({"word": str, "count": int}), "output 'counts'")
