"""An oracle: two streams that should be the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from framework.dataflow.handle import InputHandle, OutputHandle
from framework.dataflow.notificator import Notificator
from framework.dataflow.pact import Fixed
from framework.progress.order import Time
from operators.errors import StreamsDiffer
from routing.hashing import UnsupportedKey, stable_hash

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")

SHOWN_MAX = 10
"""How many missing and surplus records an error shows; it carries them all."""


def verify(stream: Stream[T], expected: Stream[Any], *, name: str = "verify") -> Stream[T]:
    """Compare with `expected`, time by time, in whatever order records come; raise `StreamsDiffer` if they differ.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     squares = to_stream(scope, [1, 2, 3]).map(lambda n: n * n)
    ...     return squares.verify(to_stream(scope, [9, 4, 1])).extract()
    >>> example(build).rows()
    [1, 4, 9]

    What comes out are the records of this stream, when their time is complete and was found right. Records are compared
    with `==` and need not be hashable. Equal ones meet on one worker, wherever they came from.
    """
    by_time: dict[Time, tuple[list[Any], list[Any]]] = {}

    def logic(left: InputHandle, right: InputHandle, output: OutputHandle, notificator: Notificator) -> None:
        for side, input in enumerate((left, right)):
            for capability, rows in input:
                time = capability.time
                if time not in by_time:
                    by_time[time] = [], []
                    notificator.notify_at(capability.retain())
                by_time[time][side].extend(rows)
        for complete in notificator:
            actual, wanted = by_time.pop(complete.time)
            missing, surplus = _difference(actual, wanted)
            if missing or surplus:
                raise _differs(name, complete.time, missing, surplus)
            output.session(complete).give_container(actual)

    pact = Fixed(_route)
    return stream.binary_notify(expected, logic, pact=pact, other_pact=pact, name=name)


def _difference(actual: list[Any], wanted: list[Any]) -> tuple[list[Any], list[Any]]:
    """What `actual` lacks and what it has too much of, as multisets."""
    try:
        have, want = Counter(actual), Counter(wanted)
    except TypeError:
        return _difference_unhashable(actual, wanted)
    return list((want - have).elements()), list((have - want).elements())


def _difference_unhashable(actual: list[Any], wanted: list[Any]) -> tuple[list[Any], list[Any]]:
    """The same for records without a hash; only those with the same route can be equal."""
    have: dict[int, list[Any]] = {}
    for record in actual:
        have.setdefault(_route(record), []).append(record)
    missing = []
    for record in wanted:
        try:
            have.get(_route(record), []).remove(record)
        except ValueError:
            missing.append(record)
    return missing, [record for records in have.values() for record in records]


def _differs(name: str, time: Time, missing: list[Any], surplus: list[Any]) -> StreamsDiffer:
    return StreamsDiffer(
        f"operator {name!r}: the streams differ at time {time!r}; "
        f"missing are {_show(missing)}, and surplus are {_show(surplus)}",
        time=time,
        missing=missing,
        surplus=surplus,
    )


def _show(records: list[Any]) -> str:
    shown = ", ".join(repr(record) for record in records[:SHOWN_MAX])
    more = f" and {len(records) - SHOWN_MAX} more" if len(records) > SHOWN_MAX else ""
    return f"[{shown}]{more}"


def _route(record: Any) -> int:
    try:
        return stable_hash(record)
    except UnsupportedKey:
        return stable_hash(_key(record))


def _key(record: Any) -> Any:
    """A key with a stable hash, the same for records that are equal."""
    match record:
        case None | str() | bytes() | int() | float():
            return record
        case tuple() | list():
            return tuple(_key(item) for item in record)
        case dict():
            return tuple(sorted(stable_hash((_key(key), _key(value))) for key, value in record.items()))
        case set() | frozenset():
            return tuple(sorted(stable_hash(_key(item)) for item in record))
    # What such an object is equal to only its class knows: all of them meet in one place.
    return "other"
