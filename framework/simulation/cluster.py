"""A cluster of real workers in one thread.

From one seed the simulation decides, move by move, who acts: a worker's program goes on to its next `yield`, a worker
steps, or one frame arrives on one link. Frames stay in order within a link and in no order across links. The workers, their
dataflows, the progress protocol and the wire format are those of production; only the links and the clock are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from framework.membership import Members, WorkerId
from framework.simulation.network import Network, SimulatedTransport
from framework.worker.worker import Worker

Program = Callable[[Worker], Iterator[None]]
"""Builds dataflows and feeds them, giving way to the rest of the cluster at each `yield`; must not step the worker."""


class SimulationStuck(AssertionError):
    """The budget of moves is used up and some dataflow is not complete."""


class SimulatedCluster:
    """Workers, the links between them, and the dice."""

    def __init__(self, *, workers: int, seed: int, congested_frames: int = 1_000_000) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.network = Network(congested_frames=congested_frames)
        self.now_s = 0.0
        self.moves = 0
        self.after_move: list[Callable[[], None]] = []
        """Called after every move; raise to fail the run."""
        members = Members.dense(workers)
        self.workers: dict[WorkerId, Worker] = {
            worker: Worker(worker, members, SimulatedTransport(worker, self.network), clock=lambda: self.now_s)
            for worker in members.workers
        }

    def run(self, program: Program, *, moves_max: int = 100_000) -> None:
        """Run `program` on every worker until all dataflows are complete and nothing is under way."""
        programs = {worker.id: program(worker) for worker in self.workers.values()}
        while programs or self.network.busy() or any(worker.installed_dataflows() for worker in self.workers.values()):
            if self.moves >= moves_max:
                raise SimulationStuck(
                    f"seed {self.seed}: not complete after {moves_max} moves; "
                    f"{ {w.id: w.progress_states() for w in self.workers.values()} }"
                )
            self._move(programs)
            self.moves += 1
            for check in self.after_move:
                check()

    def _move(self, programs: dict[WorkerId, Iterator[None]]) -> None:
        self.now_s += self.random.random() / 1000
        busy = self.network.busy()
        dice = self.random.random()
        if busy and dice < 0.5:
            self.network.deliver(self.random.choice(busy))
        elif programs and dice < 0.7:
            worker = self.random.choice(sorted(programs))
            try:
                next(programs[worker])
            except StopIteration:
                del programs[worker]
                self.workers[worker].close_inputs()
        else:
            self.random.choice(list(self.workers.values())).step()
