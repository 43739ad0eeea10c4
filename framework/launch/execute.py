"""Run a program on every worker of a computation.

`execute` runs the workers of this process and raises what went wrong. `execute_from_args` is for a program's last line:
it reads the flags, starts local processes if asked to, prints one report of a failure, and exits accordingly.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TypeVar

from framework.dataflow.scope import Scope
from framework.errors import ConfigError, JobStopped, PeerRefused, PeersUnreachable, ProcessesFailed
from framework.launch.config import Config, parse, usage, with_spawned
from framework.launch.control_protocol import ControlPlane
from framework.launch.heartbeat import HeartbeatThread
from framework.launch.launcher import Launcher
from framework.launch.local import LocalLauncher
from framework.launch.memory_tuning import keep_freed_memory, leave_alone_what_is_loaded, sweep_before_joining
from framework.launch.merge import merge
from framework.launch.report import distance, render, worst
from framework.launch.signals import Stop, exit_code
from framework.launch.spawned import Spawned
from framework.launch.status_pipe import Failure, ProcessDone, Up, send_status
from framework.launch.supervisor import supervise
from framework.launch.supervisor_link import SupervisorLink
from framework.membership.members import Address, Members, WorkerId
from framework.net.endpoint import Endpoint
from framework.net.mesh import Mesh, join_mesh, start_mesh
from framework.net.secret import load_or_create_secret
from framework.wire.credentials import Credentials
from framework.worker.worker import Worker

R = TypeVar("R")

ABORT_DRAIN_S = 2.0
"""How long a failing worker tries to tell its peers why."""

STOP_GRACE_S = 5.0
"""How long threads have to get to their next step after a request to stop."""

JOIN_POLL_S = 0.5

JOIN_PATIENCE_S = 120.0
"""How long a joiner waits for its turn and for what it must know."""


def example(build: Callable[[Scope], R], *, threads: int = 1) -> R:
    """Build one dataflow, run it to completion, and return what `build` returned.

    With several worker `threads`, `build` is called on each, and so each has sources, which send what they are given;
    `scope.worker.index` tells which worker it is. What `extract` collected is merged, also within tuples, lists and
    dicts. Anything else must be the same on all workers.
    """

    def main(worker: Worker) -> R:
        with worker.dataflow("example") as scope:
            return build(scope)

    return merge(execute(main, Config(threads=threads)))


def execute(main: Callable[[Worker], R], config: Config | None = None, args: Sequence[str] = ()) -> list[R]:
    """Run `main` on every worker of this process, and return what it returned, by worker.

    After `main` returns, its inputs are closed and the worker runs until its dataflows are complete on all workers.
    """
    return _execute(main, config or Config(), args, Stop(), None, is_ours=False)


def execute_from_args(
    main: Callable[[Worker], R], argv: Sequence[str] | None = None, *, control_plane: ControlPlane | None = None
) -> list[R]:
    """Run `main` as the flags in `argv` (the program's own by default) say; what they leave is in `worker.args`.

    A failure is reported and ends the program with exit code 1, bad flags with 2, Ctrl-C with 130 and SIGTERM with 143.
    With a control plane, this process supervises, and all workers are in processes of their own.
    """
    program, *rest = sys.argv if argv is None else ["", *argv]
    spawned = Spawned.from_environment()
    try:
        config, args = parse(rest)
    except ConfigError as error:
        print(f"{program}: {error}\n\n{usage()}", file=sys.stderr)
        raise SystemExit(2) from None
    if spawned is not None:
        return execute_as_child(main, config, spawned, control_plane=control_plane, args=args)
    if config.process is None or (control_plane is not None and not config.by_hand):
        supervise_from_args(LocalLauncher(), config, control_plane)
        return []
    stop = Stop(tells=True)
    show_log()
    keep_freed_memory()
    with stop.on_signals(), _reporting(config, stop, None):
        return _execute(main, config, args, stop, None, is_ours=True)


def execute_as_child(
    main: Callable[[Worker], R],
    config: Config,
    spawned: Spawned,
    *,
    control_plane: ControlPlane | None = None,
    args: Sequence[str] = (),
) -> list[R]:
    """Run the workers of a process that a launcher has started, tell it of a failure, and exit accordingly."""
    config, stop = with_spawned(config, spawned), Stop()
    show_log()
    keep_freed_memory()
    with stop.on_signals():
        spawned.live_as_child()
        send_status(spawned.status_fd, Up())
        with HeartbeatThread(spawned.status_fd) as heartbeat, _reporting(config, stop, spawned):
            link = SupervisorLink(spawned, control_plane, heartbeat)
            return _execute(main, config, args, stop, link, is_ours=True)


def supervise_from_args(launcher: Launcher, config: Config, control_plane: ControlPlane | None) -> None:
    """Supervise the processes of a program that the user has started; exit accordingly if that fails."""
    stop = Stop(tells=True)
    show_log()
    with stop.on_signals(), _reporting(config, stop, None):
        supervise(launcher, config, stop, control_plane)


@contextmanager
def _reporting(config: Config, stop: Stop, spawned: Spawned | None) -> Iterator[None]:
    """Report what goes wrong, and exit accordingly."""
    try:
        yield
    except ProcessesFailed as error:
        _deliver(str(error), error, spawned)
        raise SystemExit(error.code) from None
    except (Exception, JobStopped) as error:
        _deliver(render(error, config.first_worker), error, spawned)
        raise SystemExit(exit_code(error, stop)) from None


def _deliver(report: str, error: BaseException, spawned: Spawned | None) -> None:
    """Send a report to the supervisor if there is one, else print it."""
    if spawned is None:
        print(report, file=sys.stderr, flush=True)
    else:
        send_status(spawned.status_fd, Failure(distance(error), report))


def show_log() -> None:
    """Show the log of joins, leaves and links on standard error, unless the program has set up logging itself."""
    log = logging.getLogger("hailer")
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("hailer: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _execute(
    main: Callable[[Worker], R],
    config: Config,
    args: Sequence[str],
    stop: Stop,
    link: SupervisorLink | None,
    *,
    is_ours: bool,
) -> list[R]:
    """Run the workers of this process. `is_ours`: it is there for nothing else."""
    spawned = None if link is None else link.spawned
    assert config.process is not None
    if is_ours and config.join is not None:
        sweep_before_joining()
    mesh = _mesh(config, _credentials(config), spawned.listener() if spawned else None, lambda: stop.reason is not None)
    try:
        workers = _workers(config, args, mesh)
        heartbeat = link.heartbeat if link is not None else None
        with link.supervised(workers, joins=config.join is not None) if link is not None else nullcontext():
            results = _run_workers(main, config, workers, stop, mesh, heartbeat, is_ours=is_ours)
        if link is not None and link.control_plane is not None:
            send_status(link.spawned.status_fd, ProcessDone(link.control_plane.done()))
        return results
    finally:
        mesh.close()


def _credentials(config: Config) -> Credentials:
    secret = config.secret
    if secret is None:
        secret = load_or_create_secret(config.secret_file) if config.processes > 1 or config.joinable else b""
    return Credentials(secret, config.run, encryption=config.encryption)


def _mesh(
    config: Config, credentials: Credentials, listener: socket.socket | None, should_stop: Callable[[], bool]
) -> Mesh:
    assert config.process is not None
    if config.join is not None:
        server = WorkerId(config.server * config.threads), config.join
        return join_mesh(
            config.process,
            config.threads,
            config.address,
            server,
            credentials,
            listener=listener,
            should_stop=should_stop,
        )
    return start_mesh(
        config.process,
        config.threads,
        config.addresses,
        credentials,
        listener=listener,
        joinable=config.joinable,
        should_stop=should_stop,
    )


def _workers(config: Config, args: Sequence[str], mesh: Mesh) -> list[Worker]:
    members = Members.dense(config.workers) if config.join is None else Members(0, ())
    addresses = {worker: config.addresses[worker // config.threads] for worker in members.workers}
    return [Worker(id_, members, endpoint, args=args, addresses=addresses) for id_, endpoint in mesh.endpoints.items()]


def _run_workers(
    main: Callable[[Worker], R],
    config: Config,
    workers: Sequence[Worker],
    stop: Stop,
    mesh: Mesh,
    heartbeat: HeartbeatThread | None,
    *,
    is_ours: bool,
) -> list[R]:
    stop.watch(workers)
    results: dict[WorkerId, R] = {}
    errors: list[BaseException] = []
    kept_out: list[BaseException] = []

    def run(worker: Worker, endpoint: Endpoint) -> None:
        if heartbeat is not None:
            heartbeat.watch(worker)
        try:
            if config.join is not None:
                _join(worker, WorkerId(config.server * config.threads), config.address)
            if is_ours:
                leave_alone_what_is_loaded(worker)
            result = main(worker)
            worker.finish()
            results[worker.id] = result
        except BaseException as error:  # whatever ends a worker ends the job on all of them
            if len(workers) > 1 and worker.membership.joining and isinstance(error, PeerRefused | PeersUnreachable):
                # Others of its process may have joined: were it to fail, so would the job.
                kept_out.append(error)
                worker.log(f"{error}; the other workers of its process leave")
                worker.shut_down()
                for other in workers:
                    other.ask_to_leave()
                return
            errors.append(error)
            worker.abort(render(error, worker.id))
            endpoint.drain(ABORT_DRAIN_S)
        finally:
            if heartbeat is not None:
                heartbeat.forget(worker)

    if len(workers) == 1:
        run(workers[0], mesh.endpoints[workers[0].id])
    else:
        _run_threads([partial(run, worker, mesh.endpoints[worker.id]) for worker in workers], stop)
    if errors or not results:
        raise worst(errors or kept_out)
    return [results[worker.id] for worker in workers if worker.id in results]


def _join(worker: Worker, server: WorkerId, address: Address) -> None:
    """Learn what a joiner must know before its program builds on it."""
    worker.join(server, address)
    deadline_s = time.monotonic() + JOIN_PATIENCE_S
    while not worker.membership.learned:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise PeersUnreachable(
                f"worker {server} did not let worker {worker.id} in within {JOIN_PATIENCE_S:g} s; "
                f"is the job busy with another join, or does its program never step?"
            )
        worker.step_or_park(left_s)


def _run_threads(runs: list[Callable[[], None]], stop: Stop) -> None:
    """Run all to their end. After a request to stop, a thread that does not get to its next step is left behind."""
    threads = [threading.Thread(target=run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    deadline_s: float | None = None
    while alive := [thread for thread in threads if thread.is_alive()]:
        try:
            alive[0].join(JOIN_POLL_S)
        except KeyboardInterrupt:  # only the main thread sees it
            stop.request("interrupted")
        if stop.reason is not None:
            deadline_s = deadline_s or time.monotonic() + STOP_GRACE_S
            if time.monotonic() > deadline_s:
                raise JobStopped(f"{stop.reason}; {len(alive)} workers were busy and were not waited for")
