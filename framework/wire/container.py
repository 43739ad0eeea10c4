"""What a stream carries: containers of records, each kind with its own bytes.

Today there is one kind, rows: a list of Python objects. A kind is found by the exact type of a container on the way
out and by its number on the way in, so that another (columns) is one more `register_kind`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from framework.errors import ProtocolError
from framework.wire.codec import Buffer, decode_rows, encode_rows


class Container(Protocol):
    """Some records of a stream. Its length is the number of records that progress counts."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """How containers of one type travel. `encode` is also told where the container was sent from."""

    number: int
    cls: type
    encode: Callable[[Any, str], bytes]
    decode: Callable[[Buffer], Any]
    split: Callable[[Any], tuple[Any, Any]]


def register_kind(kind: Kind) -> None:
    """Let streams carry containers of `kind.cls`."""
    assert kind.number in range(256), kind
    assert kind.number not in _by_number, kind
    assert kind.cls not in _by_type, kind
    _by_number[kind.number] = kind
    _by_type[kind.cls] = kind


def encode_container(container: Container, where: str = "this job") -> tuple[int, bytes]:
    """The kind and the bytes of a container."""
    kind = _by_type[type(container)]
    return kind.number, kind.encode(container, where)


def decode_container(number: int, buffer: Buffer) -> Container:
    """The container of kind `number` in `buffer`, or `ProtocolError`."""
    kind = _by_number.get(number)
    if kind is None:
        raise ProtocolError(f"containers of kind {number} are not known here")
    container: Container = kind.decode(buffer)
    return container


def split_container(container: Container) -> tuple[Container, Container]:
    """Two halves of a container of at least two records, in order."""
    return _by_type[type(container)].split(container)


def _halves(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


_by_number: dict[int, Kind] = {}
_by_type: dict[type, Kind] = {}
register_kind(Kind(0, list, encode_rows, decode_rows, _halves))
