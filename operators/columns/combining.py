"""Several aggregates as one loop: its source, for the columns at hand.

Of each column the state has how many values there were, shared by all aggregates over it; of records, only if they are
counted. Then come the parts of each aggregate. A loop either gives results with each record, or notes which entries
have changed, so that their results are taken from the table later, by another function of the same source. States of
the same aggregates, of records that were combined elsewhere, are merged by another loop of the same form.
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

_NOTED = """\
        if serial != 0 and load_i64(state + {mark}) != serial << 32:
            if at == len(rows):
                progress[1] = at
                return row
            if at < len(given):  # what was kept before is over
                given[at] = row
                for word in range({mark} // 8):
                    store(state + 8 * word, 0)
            store(state + {mark}, serial << 32)
            rows[at] = entry
            at += 1
"""


@dataclass(frozen=True, slots=True)
class Combined:
    """Aggregates over a stream with `schema`, by the columns that they come out in."""

    schema: pa.Schema
    aggregates: Mapping[str, Aggregate]
    per_record: bool

    @staticmethod
    def of(schema: pa.Schema, aggregates: Mapping[str, Aggregate], where: str, *, per_record: bool) -> Combined:
        """Raise for what cannot be; `where` is the operator."""
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
        """The columns that are looked at, each once."""
        return list(dict.fromkeys(one.column for one in self.aggregates.values() if one.column is not None))

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """The arrays that the loop takes, each once: the numbers of a column, or its hashes."""
        of_values = [one for one in self.aggregates.values() if one.of != "nothing"]
        return list(dict.fromkeys((one.column, one.of) for one in of_values if one.column is not None))

    @property
    def results(self) -> pa.Schema:
        """What comes out, without the key."""
        return pa.schema([pa.field(name, one.type(self._type(one))) for name, one in self.aggregates.items()])

    @property
    def state(self) -> pa.Schema:
        """What is kept of a key."""
        fields = [pa.field("n", pa.int64())] if self._counts_records else []
        fields += [pa.field(f"n{index}", pa.int64()) for index in range(len(self.columns))]
        for number in range(len(self.aggregates)):
            fields += self._parts(number)
        return pa.schema(fields)

    @property
    def state_words(self) -> int:
        """How many words an entry's state takes."""
        return self._mark + (not self.per_record)

    @property
    def can_be_null(self) -> list[int]:
        """The columns, by their numbers, over which there are aggregates that are null without a value."""
        nullable = {one.column for one in self.aggregates.values() if not one.is_count}
        return [index for index, column in enumerate(self.columns) if column in nullable]

    def merging(self) -> str:
        """The source of a module with the function `merge`: for each row there is a state, all of their words in a row.

        It is `apply` in all else, and notes which entries have changed.
        """
        step = [f"other = others + {8 * self._mark} * row", *self._read(), *self._read("other")]
        if self._counts_records:
            step += ["n += other_n", f"store(state + {self._places()['n']}, n)"]
        for index, column in enumerate(self.columns):
            step += [f"if other_n{index} > 0:", *(f"    {line}" for line in self._updates(index, column, merged=True))]
        return loop_source(
            self._imports,
            unpacked="    others = address_of(values[0])",
            initial=self._initial,
            step=_NOTED.format(mark=8 * self._mark) + _indented(8, step),
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
            unpacked=_indented(4, [*(outs if self.per_record else []), *inputs]),
            initial=self._initial,
            step=self._step(),
        )
        results = _RESULTS.format(
            unpacked=_indented(4, outs),
            read=_indented(8, self._read()),
            written=_indented(8, [*self._written(), *(f"missing{i}[at] = n{i} == 0" for i in self.can_be_null)]),
        )
        return loop + results

    @property
    def _imports(self) -> str:
        return (
            f"from {casts.__name__} import added\nfrom {hyperloglog.__name__} import hll_add, hll_estimate, hll_merge\n"
        )

    @property
    def _initial(self) -> str:
        return _indented(20, [f"for word in range({self.state_words}):", "    store(state + 8 * word, 0)"])

    def _step(self) -> str:
        lines = list(self._read())
        if self._counts_records:
            lines += ["n += 1", f"store(state + {self._places()['n']}, n)"]
        for index, column in enumerate(self.columns):
            lines.append(f"if not (some{index} and mask{index}[row]):")
            lines += [f"    {line}" for line in self._updates(index, column)]
        if self.per_record:
            lines += self._written()
            for index in self.can_be_null:
                lines += [f"if some{index}:", f"    missing{index}[at] = n{index} == 0"]
            lines.append("at += 1")
            return _indented(8, lines)
        return _NOTED.format(mark=8 * self._mark) + _indented(8, lines)

    def _updates(self, index: int, column: str, *, merged: bool = False) -> Iterator[str]:
        """What a value of a column changes, or a state of some."""
        places = self._places()
        changed = [f"n{index}"]
        yield f"n{index} += " + (f"other_n{index}" if merged else "1")
        for number, aggregate in enumerate(self.aggregates.values()):
            if aggregate.column == column:
                lines = aggregate.merge if merged else aggregate.update
                yield from (self._text(line, number, aggregate) for line in lines)
                changed += [field.name for field in self._parts(number)]
        for field in (self.state.field(name) for name in changed):
            if one := _number(field):
                yield one.write(f"state + {places[field.name]}", f"{one.cast}({field.name})")

    def _read(self, of: str = "state") -> Iterator[str]:
        places, prefix = self._places(), "" if of == "state" else f"{of}_"
        for field in self.state:
            if one := _number(field):
                yield f"{prefix}{field.name} = {one.read(f'{of} + {places[field.name]}')}"

    def _written(self) -> Iterator[str]:
        for number, (aggregate, field) in enumerate(zip(self.aggregates.values(), self.results, strict=True)):
            cast = Field(field.name, field.type).cast
            yield f"out{number}[at] = {cast}({self._text(aggregate.result, number, aggregate)})"

    @property
    def _counts_records(self) -> bool:
        return any(one.column is None for one in self.aggregates.values())

    @property
    def _mark(self) -> int:
        """The word behind the state: in which epoch an entry was last noted as changed."""
        return sum(words_in(field.type) for field in self.state)

    def _parts(self, number: int) -> list[pa.Field]:
        """What an aggregate keeps."""
        aggregate = list(self.aggregates.values())[number]
        parts = zip("abc", aggregate.state, strict=False)
        return [pa.field(f"{part}{number}", typed(self._type(aggregate))) for part, typed in parts]

    def _places(self) -> dict[str, int]:
        """Where each part of the state begins, in bytes."""
        places, at = {}, 0
        for field in self.state:
            places[field.name] = at
            at += 8 * words_in(field.type)
        return places

    def _type(self, aggregate: Aggregate) -> pa.DataType:
        return pa.null() if aggregate.column is None else self.schema.field(aggregate.column).type

    def _widening(self, aggregate: Aggregate) -> str:
        return Field(str(aggregate.column), self._type(aggregate)).widening

    def _text(self, line: str, number: int, aggregate: Aggregate) -> str:
        """A line of an aggregate, in which its own names are told apart from those of the others."""
        names = {"delta": f"delta{number}", "n": "n"}
        for part, field in zip("abc", self._parts(number), strict=False):
            place, in_place = self._places()[field.name], pa.types.is_fixed_size_binary(field.type)
            names[part] = f"(state + {place})" if in_place else field.name
            names[f"{part}2"] = f"(other + {place})" if in_place else f"other_{field.name}"
        if aggregate.column is not None:
            names["n"] = f"n{self.columns.index(aggregate.column)}"
            names["n2"] = f"other_{names['n']}"
            if aggregate.of != "nothing":
                value = f"value{self.inputs.index((aggregate.column, aggregate.of))}[row]"
                names["v"] = value if aggregate.of == "hashes" else f"{self._widening(aggregate)}({value})"
        return re.sub(r"\b(v|[abcn]2?|delta)\b", lambda found: names[found[1]], line)


def _number(field: pa.Field) -> Field | None:
    return None if pa.types.is_fixed_size_binary(field.type) else Field(field.name, field.type)


def _indented(by: int, lines: Iterable[str]) -> str:
    return "\n".join(f"{' ' * by}{line}" for line in lines)
