"""Feeds a job's inputs on one worker: an epoch at a time, and no further ahead of the outputs than allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any

from framework.errors import ConfigError
from operators.flow import Flow

EPOCHS_AHEAD_MAX = 16
"""How many epochs a source may be ahead of the outputs."""


def drive(flow: Flow, sources: Mapping[str, Iterator[list[Any]]]) -> None:
    """Feed a job's inputs on one worker, one list per epoch and input; inputs without a source are closed.

    The job's own control stream goes along, on the one worker that sends commands.
    """
    worker, open_inputs, epoch = flow.worker, dict(flow.inputs), 0
    for name in flow.inputs.keys() - sources.keys():
        open_inputs.pop(name).close()
    if not flow.commanding:
        flow.end_commands()
    while open_inputs:
        for name, input in list(open_inputs.items()):
            rows = next(sources[name], None)
            if rows is None:
                open_inputs.pop(name).close()
            else:
                input.send_batch(rows)
        if not open_inputs:
            break
        epoch += 1
        for input in open_inputs.values():
            input.advance_to(epoch)
        if flow.commanding and flow.control is not None:
            flow.control.advance_to(epoch)
        worker.step()
        worker.step_while(partial(flow.probe.less_than, epoch - EPOCHS_AHEAD_MAX))
    flow.end_commands()


def epochs(records: Iterable[Any], epoch_records: int) -> Iterator[list[Any]]:
    """Cut records into one list per epoch."""
    if epoch_records < 1:
        raise ConfigError(f"an epoch has at least one record, not {epoch_records}")
    iterator = iter(records)
    while rows := list(islice(iterator, epoch_records)):
        yield rows


def check_names(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise unless every given input or output exists."""
    known = list(known)
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"this job has no {kind} {name!r}; it has {', '.join(map(repr, known)) or 'none'}{hint}")
