"""What a stream carries: containers of records, each kind with its own bytes.

There are two kinds: rows, a list of Python objects, and columns, an Arrow `RecordBatch`. A kind is found by the exact
type of a container on the way out and by its number on the way in. Columns are loaded when the first one is met, since
a job of rows need not wait for Arrow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from framework.errors import ProtocolError
from framework.wire.codec import Buffer, decode_rows, encode_rows
from framework.wire.framing import allocate_plainly

ROWS, COLUMNS = 0, 1


class Container(Protocol):
    """Some records of a stream. Its length is the number of records that progress counts."""

    def __len__(self) -> int: ...


class Reservation(Protocol):
    """Memory at the other end of a link, for one container that is to be sent over it.

    Write the container's buffers to `memory`, one behind the other, as on the wire, and hand the reservation over when
    the container is sent. From then on the memory is the receiver's, and nobody here may look at it. A reservation that
    is not handed over is released once nothing refers to its memory.
    """

    @property
    def memory(self) -> memoryview:
        """As many bytes as were asked for."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How containers of one type travel. `encode` is also told where the container was sent from."""

    number: int
    cls: type
    encode: Callable[[Any, str], list[Buffer]]
    """Its bytes, in pieces, so that what is large need not be copied."""
    decode: Callable[[Buffer], Any]
    split: Callable[[Any], tuple[Any, Any]]
    join: Callable[[list[Any]], Any]
    """One container of several, in order."""
    alike: Callable[[Any, Any], bool]
    """Whether two can be joined."""
    size: Callable[[Any], int]
    """How much work there is in a container, beside that for any container."""
    small: int
    """Containers of a smaller size are joined before an operator takes them; 0: never."""
    weight: Callable[[Any], int]
    """Its memory, as the number of rows that would take as much."""
    allocate: Callable[[int], memoryview]
    """Memory that bytes of containers are read into."""


def register_kind(kind: Kind) -> None:
    """Let streams carry containers of `kind.cls`."""
    assert kind.number in range(256), kind
    assert kind.number not in _by_number, kind
    assert kind.cls not in _by_type, kind
    _by_number[kind.number] = kind
    _by_type[kind.cls] = kind


def encode_container(container: Container, where: str = "this job") -> tuple[int, list[Buffer]]:
    """The kind and the bytes of a container, these in pieces."""
    kind = _kind_of(container)
    return kind.number, kind.encode(container, where)


def decode_container(number: int, buffer: Buffer) -> Container:
    """The container of kind `number` in `buffer`, or `ProtocolError`."""
    if number == COLUMNS:
        load_columns()
    kind = _by_number.get(number)
    if kind is None:
        raise ProtocolError(f"containers of kind {number} are not known here")
    container: Container = kind.decode(buffer)
    return container


def allocate(size: int) -> memoryview:
    """Memory to read a container into: that of columns, where there are any."""
    return _by_number.get(COLUMNS, _by_number[ROWS]).allocate(size)


def weigh(container: Container) -> int:
    """How much a container counts for where memory is limited, in rows."""
    return _kind_of(container).weight(container)


def split_container(container: Container) -> tuple[Container, Container]:
    """Two halves of a container of at least two records, in order."""
    return _kind_of(container).split(container)


def take_joined(queue: deque[tuple[Any, Container]], time: object, first: Container) -> Container:
    """A container that was taken from a queue, with those of the same time behind it while they are small."""
    kind = _kind_of(first)
    if not kind.small:
        return first
    joined, size = [first], kind.size(first)
    while queue and size < kind.small:
        next_time, following = queue[0]
        if next_time != time or type(following) is not kind.cls or not kind.alike(first, following):
            break
        following_size = kind.size(following)
        if following_size >= kind.small:
            break
        queue.popleft()
        joined.append(following)
        size += following_size
    container: Container = first if len(joined) == 1 else kind.join(joined)
    return container


def load_columns() -> None:
    """Let streams carry columns."""
    import_module("framework.wire.columns")


def _kind_of(container: Container) -> Kind:
    kind = _by_type.get(type(container))
    if kind is None:
        load_columns()
        kind = _by_type[type(container)]
    return kind


def _halves(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


def _chained(lists: list[list[Any]]) -> list[Any]:
    return [record for rows in lists for record in rows]


_by_number: dict[int, Kind] = {}
_by_type: dict[type, Kind] = {}
register_kind(
    Kind(
        ROWS,
        list,
        lambda rows, where: [encode_rows(rows, where)],
        decode_rows,
        _halves,
        _chained,
        lambda one, other: True,
        len,
        small=0,
        weight=len,
        allocate=allocate_plainly,
    )
)
