"""The beginning of a loop, before there is an end."""

from __future__ import annotations

from typing import Any

from framework.dataflow.scope import Scope
from framework.progress.summary import Summary
from operators.core.connect_loop import Loop
from operators.stream import Stream


def feedback(scope: Scope, *, summary: Summary | None = None, name: str = "feedback") -> tuple[Loop, Stream[Any]]:
    """Open a loop: the end to pass to `Stream.connect_loop`, and the stream of what comes round.

    >>> from framework.launch.execute import example
    >>> from operators.input.to_stream import to_stream
    >>> def build(scope):
    ...     loop, again = feedback(scope)
    ...     rounds = to_stream(scope, ["round"]).concat(again)
    ...     rounds.branch_when(lambda time: time < 2)[1].connect_loop(loop)
    ...     return rounds.extract()
    >>> example(build).by_time()
    {0: ['round'], 1: ['round'], 2: ['round']}

    `summary` says what going round does to the time: by default it adds one to the innermost coordinate. Records that
    would come round after the last time that there is, are dropped.
    """
    loop = Loop(scope, summary, name)
    return loop, Stream(loop.outlet)
