"""A cluster of real workers in one thread.

From one seed the simulation decides, move by move, who acts: a worker's program goes on to its next `yield`, a worker
steps, or one frame arrives on one link. Frames stay in order within a link and in no order across links. The workers,
their dataflows, the progress protocol and the wire format are those of production; only the links and the clock are
simulated. A worker that has parked is not stepped before something wakes it, so that a wake-up that is lost shows.

Workers may join while it runs (`join`) and leave (`membership.begin_leave`, in a program); joiners may die (`kill`) or
be stopped (`stop`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from random import Random

from framework.errors import PeerLost, PeerRefused
from framework.membership.members import Members, WorkerId
from framework.simulation.network import Link, Network, SimulatedTransport
from framework.wire.messages import Lost
from framework.worker.worker import Worker

SimulatedProgram = Callable[[Worker], Iterator[None]]
"""Builds dataflows and feeds them, giving way to the rest of the cluster at each `yield`; must not step the worker."""


class SimulationStuck(AssertionError):
    """The cluster does not come to an end: nobody can move, or the budget of moves is used up."""


@dataclass(frozen=True, slots=True)
class SimulatedPace:
    """How likely who acts next is. Uneven weights make some workers slow and some links long."""

    program: float = 1.0
    workers: dict[WorkerId, float] = field(default_factory=dict)
    links: dict[Link, float] = field(default_factory=dict)

    @staticmethod
    def uneven(random: Random, workers: int) -> SimulatedPace:
        """A cluster in which some are much slower than others."""
        members = Members.dense(workers).workers
        weights = (0.05, 0.3, 1.0, 1.0, 3.0)
        return SimulatedPace(
            program=random.choice((0.1, 0.5, 1.0, 3.0)),
            workers={worker: random.choice(weights) for worker in members},
            links={(a, b): random.choice(weights) for a in members for b in members if a != b},
        )


class SimulatedCluster:
    """Workers, the links between them, and the dice."""

    def __init__(
        self,
        *,
        workers: int,
        seed: int,
        congested_frames: int = 1_000_000,
        pace: SimulatedPace | None = None,
        replay: str = "",
        trace_moves: int = 0,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.network = Network(congested_frames=congested_frames)
        self.moves = 0
        self.after_move: list[Callable[[WorkerId], None]] = []
        """Called with the worker that stepped or whose program went on; raise to fail the run. (A frame that moves from
        a link to its receiver, or a worker that parks, changes nothing that was sent, received or known.)"""
        self.when_settled: list[Callable[[], None]] = []
        """Called when nothing is under way and no worker has anything to do before a program or a timer goes on."""
        members = Members.dense(workers)
        self.workers: dict[WorkerId, Worker] = {
            worker: Worker(worker, members, SimulatedTransport(worker, self.network), clock=lambda: self.network.now_s)
            for worker in members.workers
        }
        self._pace = pace or SimulatedPace()
        self._replay = replay
        self._trace: deque[str] = deque(maxlen=trace_moves)
        self._programs: dict[WorkerId, Iterator[None]] = {}
        self._joining: dict[WorkerId, SimulatedProgram] = {}
        """Joiners whose program waits until they know what to build on."""
        self.departed: set[WorkerId] = set()
        """Those that have left, or were killed or stopped."""
        self._stopped: set[WorkerId] = set()
        self.refusals: list[str] = []
        """Why joiners were not let in."""

    def join(self, worker: WorkerId, server: WorkerId, program: SimulatedProgram) -> Worker:
        """Let a new worker join through `server` and run `program` there."""
        end = SimulatedTransport(worker, self.network)
        joiner = Worker(worker, Members(0, ()), end, clock=lambda: self.network.now_s)
        self.workers[worker] = joiner
        self._joining[worker] = program
        joiner.join(server, ("simulated", worker))
        self._trace.append(f"{self.moves}: worker {worker} asks worker {server} to join")
        return joiner

    def kill(self, worker: WorkerId) -> None:
        """End a joiner without a word. Of what it has sent, an end may be lost on each link."""
        self._trace.append(f"{self.moves}: worker {worker} dies")
        self._programs.pop(worker, None)
        self._joining.pop(worker, None)
        self._dismiss(worker)
        end = self.network.ends[worker]
        end.arrived.clear()
        for (sender, receiver), frames in list(self.network.links.items()):
            if receiver == worker:
                frames.clear()
            elif sender == worker:
                for _ in range(self.random.randrange(len(frames) + 1)):
                    frames.pop()
        for other in self.workers.keys() - self.departed:
            if self.network.knows(worker, other):
                self.network.links.setdefault((worker, other), deque()).append(Lost("it was killed"))

    def stop(self, worker: WorkerId) -> None:
        """Stop a joiner, as SIGSTOP does: nobody is told, and what it has sent arrives."""
        self._trace.append(f"{self.moves}: worker {worker} is stopped")
        self._stopped.add(worker)
        self._programs.pop(worker, None)
        self._joining.pop(worker, None)
        self._dismiss(worker)

    def _dismiss(self, worker: WorkerId) -> None:
        self.departed.add(worker)
        self.workers[worker].shut_down()

    def run(self, program: SimulatedProgram, *, moves_max: int = 100_000) -> None:
        """Run `program` on every worker until all dataflows are complete and nothing is under way."""
        self._programs = {worker.id: program(worker) for worker in self.workers.values()}
        try:
            while self._programs or self._joining or self.network.busy() or self._running():
                if self.moves >= moves_max:
                    raise SimulationStuck(f"not complete after {moves_max} moves; {self._states()}")
                self.moves += 1
                self._move()
            assert not self._joining, f"{sorted(self._joining)} never joined"
        except Exception as error:
            error.add_note(self._story())
            for worker in self.workers.values():
                worker.shut_down()
            raise

    def _running(self) -> bool:
        return any(worker.installed_dataflows() for worker in self.workers.values())

    def _move(self) -> None:
        network, pace = self.network, self._pace
        network.now_s += self.random.random() / (20 if self._stopped else 1000)  # so that time runs out for them
        links = network.busy()
        for worker in [worker for worker in self._joining if self.workers[worker].membership.learned]:
            self._programs[worker] = self._joining.pop(worker)(self.workers[worker])
        awake = [worker for worker in self.workers if self._awake(worker)]
        # As with a real input, the program of a worker whose peers are behind waits for them.
        willing = [worker for worker in self._programs if not network.ends[worker].congested()]
        if not links and not awake:
            for settled in self.when_settled:
                settled()
            if not willing:
                self._sleep()
                return
        chances = [pace.links.get(link, 1.0) for link in links]
        chances += [pace.workers.get(worker, 1.0) for worker in awake]
        chances += [pace.program] if willing else []
        [chosen] = self.random.choices(range(len(chances)), chances)
        if chosen < len(links):
            self._deliver(links[chosen])
        elif chosen < len(links) + len(awake):
            self._step(awake[chosen - len(links)])
        else:
            self._resume(self.random.choice(willing))

    def _moved(self, worker: WorkerId) -> None:
        for check in self.after_move:
            check(worker)

    def _deliver(self, link: Link) -> None:
        message = self.network.deliver(link)
        sender, receiver = link
        if receiver in self.departed and sender in self._joining:
            # Nobody listens there, and the joiner notices.
            self.network.links.setdefault((receiver, sender), deque()).append(Lost("it has left"))
        self._trace.append(f"{self.moves}: {link[0]} -> {link[1]} {message}")

    def _step(self, worker: WorkerId) -> None:
        self._trace.append(f"{self.moves}: worker {worker} steps")
        try:
            self.workers[worker].step_or_park()
        except (PeerRefused, PeerLost) as refusal:
            if not self.workers[worker].membership.joining:
                raise
            self._trace.append(f"{self.moves}: {refusal}")
            self.refusals.append(str(refusal))
            self.kill(worker)
            return
        if self.workers[worker].membership.gone and worker not in self.departed:
            self._dismiss(worker)
        end = self.network.ends[worker]
        assert not end.unflushed, f"worker {worker} has stepped and kept {end.unflushed} for itself"
        if end.asleep_until_s() <= self.network.now_s:
            self._moved(worker)

    def _resume(self, worker: WorkerId) -> None:
        self._trace.append(f"{self.moves}: the program of worker {worker} goes on")
        # Where there is but one thread, a worker whose program runs does not sleep.
        self.network.ends[worker].wake()
        try:
            next(self._programs[worker])
        except StopIteration:
            del self._programs[worker]
            self.workers[worker].close_inputs()
        self._moved(worker)

    def _awake(self, worker: WorkerId) -> bool:
        end = self.network.ends[worker]
        membership = self.workers[worker].membership
        if worker in self.departed or (membership.learned and not self.workers[worker].dataflows_built):
            return False
        if not self.workers[worker].installed_dataflows() and not membership.active:
            return bool(end.arrived)
        return end.asleep_until_s() <= self.network.now_s

    def _sleep(self) -> None:
        """Nobody can move before the first timer is due."""
        until_s = min(
            self.network.ends[id_].asleep_until_s()
            for id_, worker in self.workers.items()
            if id_ not in self.departed and (worker.installed_dataflows() or worker.membership.active)
        )
        if until_s == inf:
            raise SimulationStuck(f"all workers sleep, nothing is under way, and yet: {self._states()}")
        self._trace.append(f"{self.moves}: all sleep until {until_s:.3f} s")
        self.network.now_s = until_s

    def _states(self) -> str:
        states = {id_: worker.progress_states() for id_, worker in self.workers.items() if id_ not in self.departed}
        return f"members {[worker.members for worker in self.workers.values()]}, {states}"

    def _story(self) -> str:
        lines = [f"seed {self.seed}, move {self.moves}"]
        if self._replay:
            lines.append(f"replay with: {self._replay}")
        if self._trace:
            lines += ["the last moves:", *(f"  {move}" for move in self._trace)]
        return "\n".join(lines)
