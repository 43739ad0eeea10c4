"""The loop that runs a job on a worker: feed the inputs, an epoch at a time, and step until all is done.

The first worker sends the job's commands, has a `Steward` for workers that join and leave, and stays until the end. The
others may leave when asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from framework.errors import ConfigError
from framework.progress.order import EPOCH_MAX
from framework.suggest import hint
from framework.wire.container import Container
from operators.job.flow import Flow
from operators.job.in_flight import InFlightLimit
from operators.job.schedule import Chosen, Schedule, Successive
from operators.job.steward import Steward
from routing.commands import Instruction


def run_on_worker(flow: Flow, feed: Callable[[Flow], None]) -> None:
    """Run a job's flow on its worker until its inputs have ended, or until the worker has left.

    A worker stays until `feed` has returned, and the one that sends the job's commands, the first, until all is done.
    """
    worker = flow.worker
    worker.bootstrap()
    if not flow.commanding:
        flow.end_commands()
        feed(flow)
        worker.stay()
        return
    flow.steward = Steward(worker, flow.control) if flow.control is not None else None
    feed(flow)
    if flow.steward is not None:
        flow.steward.see_off()
    worker.membership.close()
    flow.end_commands()


def feed_from(
    sources: Mapping[str, Iterator[Container] | Chosen[Container]],
    flow: Flow,
    *,
    commands: Mapping[int, Sequence[Instruction]] | None = None,
) -> None:
    """Feed the inputs until their sources have ended; an input without a source is closed.

    A source that is an iterator gives a container for each epoch. Each set of `commands` is sent at its epoch, before
    the records.
    """
    worker, open_inputs, to_send = flow.worker, dict(flow.inputs), Chosen(commands or {})
    for name in flow.inputs.keys() - sources.keys():
        open_inputs.pop(name).close()
    schedules: dict[str, Schedule[Container]] = {
        name: source if isinstance(source, Chosen) else Successive(source) for name, source in sources.items()
    }
    epoch = max((input.time for input in open_inputs.values()), default=0)
    in_flight = InFlightLimit()

    def full() -> bool:
        frontier = flow.probe.frontier()
        in_flight.complete_before(min(frontier, default=EPOCH_MAX), time.perf_counter())  # type: ignore[arg-type]
        return in_flight.full(worker.peers)

    while True:
        if instructions := to_send.take(epoch):
            flow.command(*instructions)
            flow.send_commands()
        following = [to_send.after(epoch)]
        containers = {name: schedules[name].take(epoch) for name in open_inputs}
        in_flight.feed(epoch, time.perf_counter())
        for name, container in containers.items():
            if container is not None:
                open_inputs[name].send_container(container)
            following.append(schedules[name].after(epoch))
            if following[-1] is None:
                open_inputs.pop(name).close()
        if not (later := [each for each in following if each is not None]):
            break
        epoch = min(later)
        for input in open_inputs.values():
            input.advance_to(epoch)
        flow.advance_control_to(epoch)
        if in_flight.few:
            worker.flush()
        worker.step()
        flow.step_while(full)


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
            listed = ", ".join(map(repr, known)) or "none"
            raise ConfigError(f"this job has no {kind} {name!r}; it has {listed}{hint(name, known)}")
