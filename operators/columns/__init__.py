"""Jobs at memory speed: streams of Arrow batches, and operators that work on a batch at a time."""

from operators.columns import aggregates
from operators.columns.column_input import ColumnInput
from operators.columns.split_words import split_words
from operators.columns.stream import Columns

__all__ = ["ColumnInput", "Columns", "aggregates", "split_words"]
