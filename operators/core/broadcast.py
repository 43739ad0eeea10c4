"""Every record on every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from framework.dataflow.pact import Broadcast
from operators.core.exchange import pass_on

if TYPE_CHECKING:
    from operators.stream import Stream

T = TypeVar("T")


def broadcast(stream: Stream[T], *, name: str = "broadcast") -> Stream[T]:
    """Bring a copy of each record to every worker, this one included.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> example(lambda scope: to_stream(scope, ["to all"]).broadcast().extract()).rows()
    ['to all']
    """
    return stream.unary(pass_on, pact=Broadcast(), name=name)
