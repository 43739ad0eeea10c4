"""The job level: named inputs and outputs, and no driving loop.

A `Job` is a dataflow with names at its ends. It says nothing of where records come from or go to, so the same job runs
on lists in a test (`run`), on files from the command line (`main`, `hailer run`), or on whatever else feeds its inputs.
"""

from __future__ import annotations

import atexit
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from framework.errors import GraphError
from framework.launch.config import Config
from framework.launch.execute import execute
from framework.launch.function_source import remember, sources_of
from framework.wire import codec
from framework.wire.container import Container
from framework.worker.worker import Worker
from operators.job.flow import Flow, OutputReceiver
from operators.job.run_loop import check_names, epochs, feed_from, run_on_worker
from operators.job.schedule import Chosen, chosen_commands, chosen_records
from operators.stateful.placement import implied_control
from routing.commands import Instruction

if TYPE_CHECKING:
    from operators.control.job_control import JobControl
    from operators.job.part_writer import FileOutput
    from operators.job.served import ServedJob

EPOCH_RECORDS = 1000
"""How many records of each input make an epoch, unless said otherwise."""


class Job:
    """A dataflow with named inputs and outputs.

    >>> job = Job("lengths")
    >>> @job.dataflow
    ... def lengths(flow):
    ...     flow.output("lengths", flow.input("words").map(len))
    >>> job.run({"words": ["hailer", "of", "workers"]})
    {'lengths': [(0, 6), (0, 2), (0, 7)]}
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._build: Callable[[Flow], None] | None = None
        self._used = False
        """Whether anything has been done with it; see `_tell_unused`."""

    def __getstate__(self) -> dict[str, Any]:
        """What it is elsewhere: the source of its functions goes along."""
        self._used = True
        return {"name": self.name, "_build": self._build, "_used": True, "sources": sources_of(self._build)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        remember(state.pop("sources"))
        self.__dict__.update(state)
        _look_in_globals_of(self._build)

    @staticmethod
    def load(path: str | Path) -> Job:
        """The job that a Python file defines, as `hailer run` takes it."""
        from operators.job.job_file import load_job

        return load_job(Path(path))

    def dataflow(self, build: Callable[[Flow], None]) -> Callable[[Flow], None]:
        """Make the decorated function the one that builds the dataflow."""
        if self._build is not None:
            raise GraphError(f"job {self.name!r} has a dataflow already: {self._build.__qualname__}; a job has one")
        self._build = build
        _look_in_globals_of(build)
        if build.__module__ == "__main__" and any(flag.startswith(("--input", "--serve")) for flag in sys.argv[1:]):
            atexit.register(self._tell_unused)
        return build

    def digest(self) -> str:
        """Of its name, and of the source of its functions."""
        return hashlib.sha256(repr((self.name, sources_of(self._build))).encode()).hexdigest()[:24]

    def build(
        self,
        worker: Worker,
        receivers: Callable[[str], OutputReceiver | FileOutput],
        *,
        serving: ServedJob | None = None,
    ) -> Flow:
        """Build the dataflow on `worker`; `receivers(name)` gives the receiver of an output, or the files for it.

        With `serving`, its ends are open to others, and only outputs that it does not take have a receiver.
        """
        if self._build is None:
            raise GraphError(f"job {self.name!r} has no dataflow; decorate the function that builds it, @job.dataflow")
        self._used = True
        with worker.dataflow(self.name) as scope:
            flow = Flow(worker, scope, receivers, serving)
            with implied_control(scope, flow.commands):
                self._build(flow)
            if not flow.outputs:
                flow.watch_ends(self.name)
        return flow

    def run(
        self,
        inputs: Mapping[str, Iterable[Any] | Mapping[int, Iterable[Any]]],
        *,
        threads: int = 1,
        epoch_records: int = EPOCH_RECORDS,
        commands: Mapping[int, Iterable[Instruction]] | None = None,
    ) -> dict[str, list[tuple[int, Any]]]:
        """Run on these records, in this process, and return each output as (epoch, record) in order of epochs.

        An input's records are cut into epochs of `epoch_records`, or a mapping says which are in which epoch. The
        instructions that `commands` has for an epoch are sent as one set, and hold from that epoch on.

        >>> job = Job("lengths")
        >>> @job.dataflow
        ... def lengths(flow):
        ...     flow.output("lengths", flow.input("words").map(len))
        >>> job.run({"words": {0: ["hailer"], 7: ["of", "workers"]}})
        {'lengths': [(0, 6), (7, 2), (7, 7)]}
        """
        given = {
            name: chosen_records(name, records) if isinstance(records, Mapping) else records
            for name, records in inputs.items()
        }
        sets = chosen_commands(commands or {})
        collected: dict[str, list[tuple[int, Any]]] = {}
        lock = Lock()

        def receivers(name: str) -> OutputReceiver:
            rows = collected.setdefault(name, [])

            def receive(epoch: int, some: Sequence[Any]) -> None:
                with lock:
                    rows.extend((epoch, record) for record in some)

            return receive

        def main(worker: Worker) -> None:
            flow = self.build(worker, receivers)
            check_names("input", given, flow.inputs)
            if not flow.commanding:
                run_on_worker(flow, partial(feed_from, {}))
                return
            sources = {name: _source(flow, name, records, epoch_records) for name, records in given.items()}
            run_on_worker(flow, partial(feed_from, sources, commands=sets))

        execute(main, Config(threads=threads))
        return {name: sorted(rows, key=lambda row: row[0]) for name, rows in collected.items()}

    def main(self, argv: Sequence[str] | None = None, *, control_plane: JobControl | None = None) -> None:
        """Run from the command line: files of lines in, files of records out. `--help` tells more.

        `hailer run` gives it a control plane, so that the job can be watched and steered while it runs.
        """
        # The control plane knows jobs, and only here a job knows it: other programs need not load it.
        from operators.control import run_job

        self._used = True
        run_job.run_from_args(self, argv, control_plane)

    def _tell_unused(self) -> None:
        """Say at the end of a program that was given a job's flags that it did nothing with its job."""
        if not self._used:
            file = sys.argv[0]
            print(
                f"{file}: job {self.name!r} was not run; run it with `hailer run {file} …`, or let {file} end with "
                f"`job.main()`",
                file=sys.stderr,
            )


def _look_in_globals_of(build: Callable[[Flow], None] | None) -> None:
    """Let records and states be of the classes that the job's file defines, although that is no module."""
    namespace = getattr(build, "__globals__", None)
    if namespace is not None:
        codec.look_in(namespace)


def _source(
    flow: Flow, name: str, records: Iterable[Any] | dict[int, list[Any]], epoch_records: int
) -> Iterator[Container] | Chosen[Container]:
    """What `feed_from` feeds an input with, from what `Job.run` was given for it."""
    if not isinstance(records, dict):
        return flow.to_containers(name, epochs(records, epoch_records))
    return Chosen(dict(zip(records, flow.to_containers(name, iter(records.values())), strict=True)))
