"""Splits lines into words, as `str.split` does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa


def split_words(column: str, *, into: str = "word") -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function for `flat_map`: the words of a column of text, one in each row, in a column called `into`.

    Words are separated by white space, Unicode's included. A null has none.
    """

    def split(batch: pa.RecordBatch) -> pa.RecordBatch:
        from operators.columns.splitting import words_between
        from routing.columns.keys import byte_strings

        lines = batch.column(column)
        if not (pa.types.is_string(lines.type) or pa.types.is_large_string(lines.type)):
            raise TypeError(f"column {column!r} is {lines.type}, and words are in strings")
        if lines.null_count:
            lines = lines.fill_null("")
        offsets, data = words_between(*byte_strings(lines))
        kind = pa.string() if offsets.dtype == np.int32 else pa.large_string()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        words = pa.Array.from_buffers(kind, len(offsets) - 1, buffers).cast(lines.type)
        return pa.RecordBatch.from_arrays([words], [into])

    return split
