"""The schema of what comes in and goes out: Arrow's types, or Python's that stand for them.

    {"word": str, "count": int}
    {"user": str, "at": datetime, "tags": list[str], "scores": dict[str, float], "place": {"x": float, "y": float}}

A record of one column is the column's value; a record of several is a tuple of theirs, in the schema's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from framework.errors import GraphError
from framework.wire.codec import transpose
from operators.errors import RecordUnfit

if TYPE_CHECKING:
    import pyarrow as pa

Schema = Any
"""A mapping of names to types, Python's or Arrow's; or an Arrow schema."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema that `schema` stands for.

    >>> arrow_schema({"word": str, "count": int})
    word: string
    count: int64
    """
    import pyarrow as pa

    if isinstance(schema, pa.Schema):
        return schema
    if not isinstance(schema, Mapping) or not schema:
        raise GraphError(f"a schema is a mapping of names to types, such as {{'word': str}}, not {schema!r}")
    return pa.schema([pa.field(name, _arrow_type(name, kind)) for name, kind in schema.items()])


def load_arrow() -> None:
    """Load Arrow, and with a first array pandas, which it looks for then: before there are records that wait for it."""
    import pyarrow as pa

    pa.array([])


def _arrow_type(name: str, kind: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, pa.DataType):
        return kind
    if isinstance(kind, Mapping):
        return pa.struct([pa.field(inner, _arrow_type(f"{name}.{inner}", one)) for inner, one in kind.items()])
    simple = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        bytes: pa.binary(),
        date: pa.date32(),
        datetime: pa.timestamp("us", tz="UTC"),
        timedelta: pa.duration("us"),
        Decimal: pa.decimal128(38, 18),
    }
    if isinstance(kind, type) and kind in simple:
        return simple[kind]
    match get_origin(kind), get_args(kind):
        case builtin, (item,) if builtin is list:
            return pa.list_(_arrow_type(f"{name}[]", item))
        case builtin, (key, value) if builtin is dict:
            return pa.map_(_arrow_type(f"{name} key", key), _arrow_type(f"{name} value", value))
        case (union, (one, other)) if union in (Union, UnionType) and NoneType in (one, other):
            return _arrow_type(name, one if other is NoneType else other)
    raise GraphError(
        f"column {name!r} has the type {kind!r}, which no Arrow type stands for; write one of "
        f"{', '.join(one.__name__ for one in simple)}, list[...], dict[..., ...], a mapping of names to types, "
        f"or an Arrow type such as pyarrow.int32()"
    )


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    """The records of a batch."""
    columns = [column.to_pylist() for column in batch.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_integer(kind) and not {float, Decimal}.isdisjoint(map(type, values)):
        raise TypeError("Arrow would cut off the fraction of a number")
    return pa.array(values, kind)


def batch_of(rows: list[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
    """A batch of records; `RecordUnfit` names the one that does not fit the schema of `where`."""
    import pyarrow as pa

    try:
        columns = [rows] if len(schema) == 1 else transpose(rows)
        if rows and len(columns) != len(schema):
            raise ValueError(f"{len(columns)} columns instead of {len(schema)}")
        arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.record_batch(arrays, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if len(rows) > 1:
            for row in rows:
                batch_of([row], schema, where)
        wanted = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise RecordUnfit(f"{where} takes ({wanted}), and got {rows[0]!r}: {error}") from error
