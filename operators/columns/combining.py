"""Generates the source of several aggregates as one loop, specialised for the columns at hand.

A state begins with the number of records, if an aggregate counts them, and the number of values of each column, which
its aggregates share; then come the parts of each aggregate. A loop either emits results per record, or records dirty
entries, whose results another function of the same source reads from the table later. Partial states, of records that
were combined elsewhere, are merged by another loop of the same form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from framework.errors import GraphError
from operators.columns import casts
from operators.columns.aggregates import Aggregate
from operators.columns.loop import Field, loop_source, number_fields
from routing.columns import hyperloglog
from routing.columns.keys import KeyColumn, check_columns
from routing.columns.table.layout import words_in

_RESULTS = """

@kernel
def results(view, entries, outs):
    states, stride = address_of(view.entries) + 8 * (PAD + STATE), 8 * view.meta[WIDTH]
{unpacked}
    for at in range(len(entries)):
        state = states + stride * entries[at]
{read}
{written}
"""

_MARK_DIRTY = """\
        if serial != 0 and load_i64(state + {mark}) != serial << 32:
            if at == len(rows):
                progress[1] = at
                return row
            if at < len(given):  # its state is of an earlier batch
                given[at] = row
                for word in range({mark} // 8):
                    store(state + 8 * word, 0)
            store(state + {mark}, serial << 32)
            rows[at] = entry
            at += 1
"""


@dataclass(frozen=True, slots=True)
class Combined:
    """Aggregates over a stream with `schema`, by the names of their output columns."""

    schema: pa.Schema
    aggregates: Mapping[str, Aggregate]
    per_record: bool

    @staticmethod
    def of(schema: pa.Schema, aggregates: Mapping[str, Aggregate], where: str, *, per_record: bool) -> Combined:
        """Raise unless the aggregates fit the stream; `where` is the operator."""
        if not aggregates:
            raise GraphError(f"{where} has nothing to keep; name an aggregate, as in {{'count': count()}}")
        combined = Combined(schema, aggregates, per_record)
        check_columns(schema, combined.columns, where)
        for column, of in combined.inputs:
            if of == "numbers":
                number_fields(pa.schema([schema.field(column)]), "column")
            else:
                KeyColumn.of(schema.field(column))
        return combined

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once."""
        return list(dict.fromkeys(one.column for one in self.aggregates.values() if one.column is not None))

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """The arrays that the loop takes, each once: the numbers of a column, or its hashes."""
        of_values = [one for one in self.aggregates.values() if one.of != "nothing"]
        return list(dict.fromkeys((one.column, one.of) for one in of_values if one.column is not None))

    @property
    def results(self) -> pa.Schema:
        """The schema of results, without the key."""
        return pa.schema([pa.field(name, one.type(self._type(one))) for name, one in self.aggregates.items()])

    @property
    def state(self) -> pa.Schema:
        """The schema of a key's state."""
        fields = [pa.field("n", pa.int64())] if self._counts_records else []
        fields += [pa.field(f"n{index}", pa.int64()) for index in range(len(self.columns))]
        for number in range(len(self.aggregates)):
            fields += self._parts(number)
        return pa.schema(fields)

    @property
    def state_words(self) -> int:
        """The number of words of an entry's state, its mark included."""
        return self._mark + (not self.per_record)

    @property
    def can_be_null(self) -> list[int]:
        """The indexes of the columns with aggregates that are null without a value."""
        nullable = {one.column for one in self.aggregates.values() if not one.is_count}
        return [index for index, column in enumerate(self.columns) if column in nullable]

    def merging(self) -> str:
        """The source of a module with the function `merge`: `apply` for partial states, one per row, which records
        dirty entries. Their words are in one array.
        """
        step = [f"other = others + {8 * self._mark} * row", *self._load_state(), *self._load_state("other")]
        if self._counts_records:
            step += ["n += other_n", f"store(state + {self._offsets()['n']}, n)"]
        for index, column in enumerate(self.columns):
            step += [f"if other_n{index} > 0:", *(f"    {line}" for line in self._update(index, column, merged=True))]
        return loop_source(
            self._imports,
            unpacked="    others = address_of(values[0])",
            initial=self._initial,
            step=_MARK_DIRTY.format(mark=8 * self._mark) + _indent(8, step),
            name="merge",
        )

    def source(self) -> str:
        """The source of a module with the functions `apply` and `results`."""
        outs = [f"out{index} = outs[{index}]" for index in range(len(self.aggregates))]
        outs += [
            f"missing{index} = outs[{len(self.aggregates) + number}]" for number, index in enumerate(self.can_be_null)
        ]
        inputs = [f"value{index} = values[{index}]" for index in range(len(self.inputs))]
        for index in range(len(self.columns)):
            inputs.append(f"mask{index} = values[{len(self.inputs) + index}]")
            inputs.append(f"some{index} = len(mask{index}) > 0")
        loop = loop_source(
            self._imports,
            unpacked=_indent(4, [*(outs if self.per_record else []), *inputs]),
            initial=self._initial,
            step=self._step(),
        )
        results = _RESULTS.format(
            unpacked=_indent(4, outs),
            read=_indent(8, self._load_state()),
            written=_indent(8, [*self._write_results(), *(f"missing{i}[at] = n{i} == 0" for i in self.can_be_null)]),
        )
        return loop + results

    @property
    def _imports(self) -> str:
        return (
            f"from {casts.__name__} import added\nfrom {hyperloglog.__name__} import hll_add, hll_estimate, hll_merge\n"
        )

    @property
    def _initial(self) -> str:
        return _indent(20, [f"for word in range({self.state_words}):", "    store(state + 8 * word, 0)"])

    def _step(self) -> str:
        lines = list(self._load_state())
        if self._counts_records:
            lines += ["n += 1", f"store(state + {self._offsets()['n']}, n)"]
        for index, column in enumerate(self.columns):
            lines.append(f"if not (some{index} and mask{index}[row]):")
            lines += [f"    {line}" for line in self._update(index, column)]
        if self.per_record:
            lines += self._write_results()
            for index in self.can_be_null:
                lines += [f"if some{index}:", f"    missing{index}[at] = n{index} == 0"]
            lines.append("at += 1")
            return _indent(8, lines)
        return _MARK_DIRTY.format(mark=8 * self._mark) + _indent(8, lines)

    def _update(self, index: int, column: str, *, merged: bool = False) -> Iterator[str]:
        """Source that updates the state by a value of a column, or by a partial state."""
        offsets = self._offsets()
        changed = [f"n{index}"]
        yield f"n{index} += " + (f"other_n{index}" if merged else "1")
        for number, aggregate in enumerate(self.aggregates.values()):
            if aggregate.column == column:
                lines = aggregate.merge if merged else aggregate.update
                yield from (self._text(line, number, aggregate) for line in lines)
                changed += [field.name for field in self._parts(number)]
        for field in (self.state.field(name) for name in changed):
            if one := _number(field):
                yield one.write(f"state + {offsets[field.name]}", f"{one.cast}({field.name})")

    def _load_state(self, of: str = "state") -> Iterator[str]:
        offsets, prefix = self._offsets(), "" if of == "state" else f"{of}_"
        for field in self.state:
            if one := _number(field):
                yield f"{prefix}{field.name} = {one.read(f'{of} + {offsets[field.name]}')}"

    def _write_results(self) -> Iterator[str]:
        for number, (aggregate, field) in enumerate(zip(self.aggregates.values(), self.results, strict=True)):
            cast = Field(field.name, field.type).cast
            yield f"out{number}[at] = {cast}({self._text(aggregate.result, number, aggregate)})"

    @property
    def _counts_records(self) -> bool:
        return any(one.column is None for one in self.aggregates.values())

    @property
    def _mark(self) -> int:
        """The index of the mark, the word behind the state: the serial of the epoch in which the entry became dirty."""
        return sum(words_in(field.type) for field in self.state)

    def _parts(self, number: int) -> list[pa.Field]:
        """The parts of an aggregate's state."""
        aggregate = list(self.aggregates.values())[number]
        parts = zip("abc", aggregate.state, strict=False)
        return [pa.field(f"{part}{number}", typed(self._type(aggregate))) for part, typed in parts]

    def _offsets(self) -> dict[str, int]:
        """The offset of each part of the state, in bytes."""
        offsets, at = {}, 0
        for field in self.state:
            offsets[field.name] = at
            at += 8 * words_in(field.type)
        return offsets

    def _type(self, aggregate: Aggregate) -> pa.DataType:
        return pa.null() if aggregate.column is None else self.schema.field(aggregate.column).type

    def _widening(self, aggregate: Aggregate) -> str:
        return Field(str(aggregate.column), self._type(aggregate)).widening

    def _text(self, line: str, number: int, aggregate: Aggregate) -> str:
        """A line of an aggregate, with its names made unique."""
        names = {"delta": f"delta{number}", "n": "n"}
        for part, field in zip("abc", self._parts(number), strict=False):
            offset, in_place = self._offsets()[field.name], pa.types.is_fixed_size_binary(field.type)
            names[part] = f"(state + {offset})" if in_place else field.name
            names[f"{part}2"] = f"(other + {offset})" if in_place else f"other_{field.name}"
        if aggregate.column is not None:
            names["n"] = f"n{self.columns.index(aggregate.column)}"
            names["n2"] = f"other_{names['n']}"
            if aggregate.of != "nothing":
                value = f"value{self.inputs.index((aggregate.column, aggregate.of))}[row]"
                names["v"] = value if aggregate.of == "hashes" else f"{self._widening(aggregate)}({value})"
        return re.sub(r"\b(v|[abcn]2?|delta)\b", lambda found: names[found[1]], line)


def _number(field: pa.Field) -> Field | None:
    return None if pa.types.is_fixed_size_binary(field.type) else Field(field.name, field.type)


def _indent(by: int, lines: Iterable[str]) -> str:
    return "\n".join(f"{' ' * by}{line}" for line in lines)
