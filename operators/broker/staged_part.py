"""A part of an attempt, checked when it is staged: what the job is fed with can no longer be refused."""

from __future__ import annotations

import pyarrow as pa

from framework.errors import ProtocolError
from framework.wire.columns import decode_batch, encode_batch
from operators.errors import RequestRefused


def checked_part(data: bytes, rows: int, schema: pa.Schema | None, where: str) -> bytes:
    """The bytes of a batch of so many rows, in an input's schema if it has one; `RequestRefused` if it is none."""
    try:
        batch = decode_batch(data)
    except ProtocolError as error:
        raise RequestRefused(f"{where} was sent {error}") from error
    if len(batch) != rows:
        raise RequestRefused(f"{where} was sent a batch of {len(batch)} rows that says it has {rows}")
    if schema is None or batch.schema.equals(schema):
        return data
    try:
        return encode_batch(batch.cast(schema))
    except (pa.ArrowException, ValueError) as error:
        raise RequestRefused(f"{where} takes ({_shown(schema)}), and was sent ({_shown(batch.schema)})") from error


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
