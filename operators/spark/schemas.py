"""Spark's schemas and Arrow's, and whether a DataFrame fits an input."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from framework.errors import ConfigError


def spark_schema(schema: pa.Schema, where: str) -> StructType:
    """What Spark reads `schema` as; `ConfigError` if it has a type that Spark lacks."""
    try:
        return from_arrow_schema(schema)
    except Exception as error:  # Spark raises several kinds for types that it lacks
        raise ConfigError(f"Spark cannot read {where}, {_shown(schema)}: {error}") from error


def spoken_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects batches of `schema` to have."""
    return to_arrow_schema(schema, timezone="UTC")


def check_fits(given: StructType, declared: pa.Schema, where: str) -> None:
    """Raise unless a DataFrame has the columns that an input takes."""
    try:
        columns = to_arrow_schema(given, timezone="UTC")
    except Exception as error:  # as above
        raise ConfigError(f"{where} cannot take this DataFrame: {error}") from error
    if sorted(columns.names) != sorted(declared.names) or any(
        _plain(columns.field(name).type) != _plain(declared.field(name).type) for name in declared.names
    ):
        raise ConfigError(
            f"{where} takes {_shown(declared)}, and the DataFrame has {_shown(columns)}; "
            f"select, rename or cast its columns"
        )


def fitted(batch: pa.RecordBatch, declared: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `declared`, in its order and types."""
    return pa.record_batch([batch.column(name) for name in declared.names], declared.names).cast(declared)


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what makes no difference: time zones, nullability, names within lists and maps, wide offsets."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz and "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind


def _shown(schema: pa.Schema) -> str:
    return f"({', '.join(f'{field.name}: {field.type}' for field in schema)})"
