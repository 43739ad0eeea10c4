"""Running aggregates per key, on bins that move between workers while the stream goes on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from framework.errors import GraphError
from operators.columns.aggregates import Aggregate
from operators.columns.stateful_state_machine import is_per_epoch, place_fold
from routing.commands import Control
from routing.options import BinOptions

if TYPE_CHECKING:
    from operators.columns.rewriting import Rewritten
    from operators.columns.stream import Columns
    from operators.stream import Stream


def stateful_aggregate(
    columns: Columns,
    aggregates: Mapping[str, Aggregate],
    *,
    key: str | Sequence[str],
    emit: Literal["record", "epoch"] = "epoch",
    control: Stream[Control] | None = None,
    bins: int | BinOptions = 256,
    name: str = "stateful_aggregate",
) -> Columns:
    """Keep aggregates per key over all that has come so far; when an epoch is complete, those of its keys come out.

    >>> from framework.launch.execute import example
    >>> from operators.columns import aggregates as agg
    >>> from operators.to_stream import to_stream
    >>> def build(scope):
    ...     sales = to_stream(scope, [("tea", 3), ("milk", 1), ("tea", 5)]).to_columns({"what": str, "cents": int})
    ...     return sales.stateful_aggregate({"sold": agg.count(), "mean": agg.mean("cents")}, key="what").extract()
    >>> example(build).rows()
    [('tea', 2, 4.0), ('milk', 1, 1.0)]

    `aggregates` are those of `operators.columns.aggregates`, by the columns that they come out in, after those of the
    key. With `emit="record"`, they come out for each record. `control` and `bins` are those of
    `stateful_state_machine`.
    """
    from operators.columns.fold import CompiledFold
    from operators.columns.loop import numbers
    from routing.columns.keys import KeyColumns, check_columns

    where = f"operator {name!r}"
    keys = KeyColumns.of(columns.schema, key, where)
    if not aggregates:
        raise GraphError(f"{where} has nothing to keep; name an aggregate, as in {{'count': count()}}")
    combined = _Combined(columns.schema, keys.schema, aggregates)
    check_columns(columns.schema, combined.values, where)
    fields = numbers(pa.schema([columns.schema.field(column) for column in combined.values]), "column")
    state = combined.state()
    fold = CompiledFold(
        combined.fold(),
        key=keys,
        values=fields,
        state=numbers(state, "state"),
        initial=[0] * len(state),
        output=combined.output(),
        per_epoch=is_per_epoch(emit, where),
        tell=lambda text: columns.scope.worker.rescaling.tell(f"{where}: {text}"),
    )
    return place_fold(columns, fold, keys, state, control=control, bins=bins, name=name)


@dataclass(frozen=True, slots=True)
class _Combined:
    """Several aggregates as one fold, in the form that compiles. The first part of its state is how many there were."""

    schema: pa.Schema
    key: pa.Schema
    aggregates: Mapping[str, Aggregate]

    @property
    def values(self) -> list[str]:
        """The columns that are looked at, each once."""
        return list(dict.fromkeys(one.column for one in self.aggregates.values() if one.column is not None))

    def state(self) -> pa.Schema:
        fields = [pa.field("n", pa.int64())]
        for number, aggregate in enumerate(self.aggregates.values()):
            for part, typed in zip("abc", aggregate.state, strict=False):
                fields.append(pa.field(f"{part}{number}", typed(self._type(aggregate))))
        return pa.schema(fields)

    def output(self) -> pa.Schema:
        results = [pa.field(name, one.type(self._type(one))) for name, one in self.aggregates.items()]
        return pa.schema([*self.key, *results])

    def fold(self) -> Rewritten:
        from operators.columns.loop import Field
        from operators.columns.rewriting import Rewritten

        state, output = self.state(), self.output()
        lines = [f"{', '.join(state.names)}, = state" if len(state) > 1 else "n = state", "n += 1"]
        results = ["None"] * len(self.key)
        for number, aggregate in enumerate(self.aggregates.values()):
            lines += [self._text(line, number, aggregate) for line in aggregate.update]
            field = output.field(len(self.key) + number)
            cast = Field(field.name, field.type).cast
            results.append(f"{cast}({self._text(aggregate.result, number, aggregate)})")
        kept = [f"{Field(field.name, field.type).cast}({field.name})" for field in state]
        body = "\n".join(f"    {line}" for line in lines)
        text = (
            "from operators.columns.casts import added\n\n\n"
            "@inlined\n"
            f"def fold(key, value, state):\n{body}\n"
            f"    return 1, True, ({', '.join(kept)},), ({', '.join(results)},)\n"
        )
        echoes = {index: index for index in range(len(self.key))}
        return Rewritten(text, echoes, outputs_max=1, always_one=True, reads_key=False)

    def _type(self, aggregate: Aggregate) -> pa.DataType:
        return pa.int64() if aggregate.column is None else self.schema.field(aggregate.column).type

    def _text(self, line: str, number: int, aggregate: Aggregate) -> str:
        """A line of an aggregate, in which its own names are told apart from those of the others."""
        values = self.values
        value = "value"
        if aggregate.column is not None and len(values) > 1:
            value = f"value[{values.index(aggregate.column)}]"
        names = {"v": value, "delta": f"delta{number}", **{part: f"{part}{number}" for part in "abc"}}
        return re.sub(r"\b(v|a|b|c|delta)\b", lambda found: names[found[1]], line)
