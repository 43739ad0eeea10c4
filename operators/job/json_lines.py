"""Records as lines of JSON: JSON as RFC 8259 has it, which every reader takes, and nothing that is not the record.

Most records are made of what JSON has. A batch of them is recognised by the types that occur in it, level by level, and
goes to the standard library's encoder as it is. Others are rewritten, record by record, by the rules of `_rewritten`;
what has no form in JSON is refused.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Sequence, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import chain
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from typing import Any
from uuid import UUID

from framework.error_context import attach_record
from operators.errors import OutputFailed

DEPTH_MAX = 8
"""How deep the records of a batch may be nested to be told by their types. Deeper ones take the slow way."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_LISTS = frozenset({list, tuple})


class JsonLines:
    """Writes the records of one output as lines.

    >>> JsonLines("counts").lines([("tea", 2), ("milk", 1)], before="> ")
    b'> ["tea", 2]\\n> ["milk", 1]\\n'
    """

    def __init__(self, output: str, *, allow_nan: bool = False) -> None:
        """`allow_nan`: write `NaN` and `Infinity`, which Python, Spark and pandas read, but JSON does not have."""
        self._output = output
        self._allow_nan = allow_nan
        # What `JSONEncoder.encode` makes again for each record, which takes longer than most records do.
        self._chunks = c_make_encoder(None, None, encode_basestring, None, ": ", ", ", False, False, allow_nan)

    def lines(self, rows: Sequence[Any], *, before: str = "", after: str = "") -> bytes:
        """A line for each record. A hot path: it looks at the types of a batch, not of each record.

        A surrogate that stands for a byte which was no UTF-8 becomes that byte again.
        """
        chunks, join = self._chunks, "".join
        try:
            if not _is_plain(rows):
                texts = [self._text(row) for row in rows]
            else:
                texts = [join(chunks(row, 0)) for row in rows]
            return _joined(texts, before, after)
        except ValueError:  # NaN, or half of a surrogate pair: say in which record
            return _joined([self._text(row) for row in rows], before, after)

    def _text(self, row: Any) -> str:
        try:
            text = "".join(self._chunks(_rewritten(row, self._allow_nan), 0))
            text.encode("utf-8", "surrogateescape")
        except _Unwritable as error:
            refusal = OutputFailed(f"output {self._output!r} cannot write {error} as JSON; {error.remedy}")
        except UnicodeEncodeError:
            refusal = OutputFailed(f"output {self._output!r} cannot write text with half of a surrogate pair")
        except RecursionError:
            refusal = OutputFailed(
                f"output {self._output!r} cannot write a record that is nested so deeply, or contains itself, as JSON"
            )
        else:
            return text
        attach_record(refusal, row)
        raise refusal


def _joined(texts: list[str], before: str, after: str) -> bytes:
    return (before + f"{after}\n{before}".join(texts) + f"{after}\n").encode("utf-8", "surrogateescape")


def _is_plain(rows: Iterable[Any]) -> bool:
    """Whether all that occurs in these records is what JSON has: text, numbers, lists, and dicts with text for keys."""
    level: Iterable[Any] = rows
    for _ in range(DEPTH_MAX):
        level = list(level)
        types = {*map(type, level)}
        inner = types - _SCALARS
        if not inner:
            return True
        if types <= _LISTS:
            level = chain.from_iterable(level)
            continue
        if not inner <= _LISTS | {dict}:
            return False
        dicts = [value for value in level if type(value) is dict]
        if not {*map(type, chain.from_iterable(dicts))} <= {str}:
            return False
        lists = [value for value in level if type(value) in _LISTS]
        level = chain(chain.from_iterable(map(dict.values, dicts)), chain.from_iterable(lists))
    return False


class _Unwritable(Exception):
    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


def _rewritten(value: Any, allow_nan: bool) -> Any:
    """A value by means of what JSON has."""
    match value:
        case None | bool():
            return value
        case Enum():
            return _rewritten(value.value, allow_nan)
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float():
            _check_finite(math.isfinite(value) or allow_nan, value)
            return float(value)
        case Decimal():
            _check_finite(value.is_finite() or allow_nan, value)
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return _duration(value)
        case UUID():
            return str(value)
        case bytes() | bytearray():
            return b64encode(value).decode("ascii")
        case dict():
            return _object(value, allow_nan)
        case tuple() if hasattr(value, "_fields"):
            return {name: _rewritten(each, allow_nan) for name, each in zip(value._fields, value, strict=True)}
        case list() | tuple() | deque():
            return [_rewritten(each, allow_nan) for each in value]
        case set() | frozenset():
            return [_rewritten(each, allow_nan) for each in _in_order(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _rewritten(getattr(value, field.name), allow_nan) for field in dataclasses.fields(value)}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.bool_, numpy.number)) and value.dtype.kind in "biuf":
        plain = value.item()
        return _rewritten(float(plain) if isinstance(plain, numpy.longdouble) else plain, allow_nan)
    raise _Unwritable(f"a {type(value).__qualname__}", "map it to what JSON has: text, numbers, lists, dicts")


def _check_finite(fits: bool, value: float | Decimal) -> None:
    if not fits:
        raise _Unwritable(f"the number {value}", "write None in its place, or ask for it with --allow-nan")


def _object(value: dict[Any, Any], allow_nan: bool) -> dict[str, Any]:
    """A dict with text for keys. Integers become text; so does what is text in JSON: dates, decimals, UUIDs."""
    rewritten: dict[str, Any] = {}
    for key, each in value.items():
        text = _rewritten(key, allow_nan)
        if type(text) is int:
            text = str(text)
        if type(text) is not str:
            raise _Unwritable(f"a dict with the key {key!r}", "keys are text or integers")
        if text in rewritten:
            raise _Unwritable(f"a dict with two keys that are both {text!r}", "keys are text")
        rewritten[text] = _rewritten(each, allow_nan)
    return rewritten


def _in_order(values: Set[Any]) -> Sequence[Any]:
    """The members of a set, in an order that is the same in every run, if they have one."""
    try:
        return sorted(values)
    except TypeError:
        return list(values)


def _duration(value: timedelta) -> str:
    """A duration of ISO 8601, in days and seconds."""
    sign, size = ("-", -value) if value < timedelta(0) else ("", value)
    fraction = f".{size.microseconds:06}" if size.microseconds else ""
    return f"{sign}P{size.days}DT{size.seconds}{fraction}S"
