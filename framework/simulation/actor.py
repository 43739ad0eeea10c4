"""One worker as an automaton: what it does next follows from its state and from what it is given, and nothing else.

Workers share nothing but frames, so the state of a cluster is those of its workers and what is on the links. A worker's
own transitions are far fewer than those of the cluster. Each is found out once, by running a production `Worker`, and
remembered; from a state that has been left before, by running one again from its beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from framework.dataflow.capability import Capability, observe_capabilities
from framework.errors import PeerLost, PeerRefused
from framework.membership.members import Members, WorkerId
from framework.simulation.fingerprint import fingerprint
from framework.simulation.network import Network, SimulatedTransport
from framework.simulation.views import NOBODY, ScriptLog, WorkerView, look
from framework.wire.container import Reservation
from framework.wire.messages import Goodbye, Lost, Message, decode, encode_whole
from framework.worker.worker import Worker

Script: TypeAlias = Callable[[Worker, ScriptLog], Iterator[None]]
"""What a worker's program does, up to each `yield`; it must not step the worker."""

Frame: TypeAlias = bytes | Lost
"""What is on a link: the body of a frame, or the link's end."""

Arrivals: TypeAlias = tuple[tuple[WorkerId, Frame], ...]


class Act(Enum):
    """What a worker does apart from stepping."""

    RESUME = "its program goes on"


Given: TypeAlias = Arrivals | Act
"""What makes a worker move; frames that arrive, be they none, come with a step."""


class ActorStatus(Enum):
    """Whether a worker still takes part."""

    HERE = "here"
    LEFT = "left"
    """Or come to the end of the job."""
    TURNED_AWAY = "turned away"
    """It wanted to join, and was refused, or lost its server."""
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Role:
    """How a worker begins, and what may happen to it."""

    worker: WorkerId
    part: Script
    server: WorkerId | None = None
    """Whom it joins through; a founder through nobody."""
    mortal: bool = False
    """Whether it may die, until it has joined."""


@dataclass(frozen=True, slots=True)
class ActorState:
    """What there is to know of one state of a worker."""

    status: ActorStatus
    programmed: bool
    """Whether its program can go on."""
    steps: bool
    """Whether it may step: not before a joiner has built its dataflows on what it has learned."""
    linked: frozenset[WorkerId]
    """Who has a link to it and was not told that it would end."""
    parted: frozenset[WorkerId]
    """Who was."""
    view: WorkerView


DEAD = -1
"""The number of the state that a worker is in after its death."""

_DEAD = ActorState(ActorStatus.DEAD, programmed=False, steps=False, linked=frozenset(), parted=frozenset(), view=NOBODY)


@dataclass(frozen=True, slots=True)
class Reaction:
    """What a move leads to."""

    state: int
    sent: tuple[tuple[WorkerId, Frame], ...]
    failure: str | None = None
    """What the worker raised, if it should not have."""


class Actor:
    """The states of one worker that were come upon, and the moves between them."""

    def __init__(self, role: Role, founders: Members, *, goodbyes: bool, restless: bool) -> None:
        self.role = role
        self.states: list[ActorState] = []
        """Those that were come upon, by number."""
        self.runs = 0
        """How often a worker was run from its beginning."""
        self._founders = founders
        self._goodbyes = goodbyes
        self._restless = restless
        self._numbers: dict[bytes, int] = {}
        self._ways: list[tuple[int, Given] | None] = []
        self._bodies: dict[int, _Body] = {}
        """Workers that are in a state right now."""
        self._reactions: dict[tuple[int, Given], Reaction] = {}
        self.first = self._arrive(self._begin(), None)

    @property
    def moves(self) -> int:
        """How many were found out."""
        return len(self._reactions)

    def state(self, number: int) -> ActorState:
        """What a state shows."""
        return _DEAD if number == DEAD else self.states[number]

    def move(self, state: int, given: Given) -> Reaction:
        """What comes of a worker in this state that is given this."""
        reaction = self._reactions.get((state, given))
        if reaction is None:
            body = self._bodies.pop(state, None) or self._again(state)
            body.move(given)
            reaction = self._reactions[state, given] = self._arrive(body, (state, given))
        return reaction

    def close(self) -> None:
        """Shut down the workers that still run."""
        for body in self._bodies.values():
            body.worker.shut_down()

    def _begin(self) -> _Body:
        self.runs += 1
        return _Body(self.role, self._founders, goodbyes=self._goodbyes, restless=self._restless)

    def _again(self, state: int) -> _Body:
        ways, way = [], self._ways[state]
        while way is not None:
            ways.append(way[1])
            way = self._ways[way[0]]
        body = self._begin()
        for given in reversed(ways):
            body.move(given)
        body.take_sent()
        return body

    def _arrive(self, body: _Body, way: tuple[int, Given] | None) -> Reaction:
        sent = body.take_sent()
        number = self._numbers.setdefault(body.fingerprint(), len(self.states))
        if number == len(self.states):
            self._ways.append(way)
            self.states.append(body.state())
        if body.failure is not None or self._bodies.setdefault(number, body) is not body:
            body.worker.shut_down()
        return Reaction(number, sent, body.failure)


class _Asleep(Exception):
    """The worker would wait for something to arrive."""


class _Transport(SimulatedTransport):
    """Keeps frames until the exploration takes them."""

    def __init__(self, worker: WorkerId) -> None:
        super().__init__(worker, Network())
        self.sent: list[tuple[WorkerId, Frame]] = []
        self.linked: set[WorkerId] = set()
        self.last_words: set[WorkerId] = set()

    @property
    def parted(self) -> set[WorkerId]:
        """Peers to which the link has ended."""
        return self._parted

    def send(
        self, peer: WorkerId, message: Message, where: str = "this job", reservation: Reservation | None = None
    ) -> None:
        """Encode a message, as it would be on a real link."""
        if peer not in self._parted:
            self.linked.add(peer)
            if isinstance(message, Goodbye):
                self.last_words.add(peer)
            self.sent += [(peer, body) for body in encode_whole(message, where)]

    def arrive(self, arrivals: Arrivals) -> None:
        """Let frames arrive."""
        for sender, frame in arrivals:
            if sender not in self._parted:
                self.linked.add(sender)
                self.arrived.append((sender, frame if isinstance(frame, Lost) else decode(frame)))

    def park(self, timeout_s: float | None) -> None:
        """A worker that would sleep has nothing to do."""
        if not self.arrived:
            raise _Asleep


class _Body:
    """A worker that runs."""

    def __init__(self, role: Role, founders: Members, *, goodbyes: bool, restless: bool) -> None:
        self.failure: str | None = None
        self._role = role
        self._goodbyes = goodbyes
        self._restless = restless
        self._status = ActorStatus.HERE
        self._log: ScriptLog = Counter()
        self._program: Iterator[None] | None = None
        self._capabilities: list[Capability] = []
        self._transport = _Transport(role.worker)
        members = founders if role.server is None else Members(0, ())
        self.worker = Worker(role.worker, members, self._transport, clock=lambda: 0.0)
        if role.server is None:
            self._program = role.part(self.worker, self._log)
            self.move(Act.RESUME)
        else:
            self.worker.join(role.server, ("simulated", role.worker))

    def move(self, given: Given) -> None:
        """Step, or let the program go on."""
        forget = observe_capabilities(self._capabilities.append)
        try:
            match given:
                case Act.RESUME:
                    self._resume()
                case _:
                    self._step(given)
            while self._restless and self._status is ActorStatus.HERE and not self._must_build:
                self._step(())
        except _Asleep:
            pass
        except (PeerRefused, PeerLost) as error:
            if self.worker.membership.joining:
                self._end(ActorStatus.TURNED_AWAY)
            else:
                self.failure = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            forget()

    def fingerprint(self) -> bytes:
        """Tells its state from others."""
        self._capabilities = [capability for capability in self._capabilities if capability.held]
        return fingerprint(self.worker, self._program, self._log, self._status)

    def state(self) -> ActorState:
        """What its state shows."""
        return ActorState(
            status=self._status,
            programmed=self._program is not None,
            steps=not self._must_build,
            linked=frozenset(self._transport.linked - self._transport.parted - self._transport.last_words),
            parted=frozenset(self._transport.parted | self._transport.last_words),
            view=look(self.worker, self._capabilities, self._log),
        )

    @property
    def _must_build(self) -> bool:
        """Whether a joiner has learned all, and its program has yet to build on it."""
        return self.worker.membership.learned and not self.worker.dataflows_built

    def take_sent(self) -> tuple[tuple[WorkerId, Frame], ...]:
        """What it has sent since it was last asked."""
        sent, self._transport.sent = self._transport.sent, []
        return tuple(sent)

    def _resume(self) -> None:
        assert self._program is not None
        try:
            next(self._program)
        except StopIteration:
            self._program = None
            self.worker.close_inputs()
            self._part_if_done()

    def _step(self, arrivals: Arrivals) -> None:
        worker, membership = self.worker, self.worker.membership
        self._transport.arrive(arrivals)
        if not self._transport.arrived and not worker.installed_dataflows() and not membership.active:
            raise _Asleep
        worker.step_or_park()
        if membership.learned and self._program is None:
            self._program = self._role.part(worker, self._log)
        self._part_if_done()

    def _part_if_done(self) -> None:
        worker, membership = self.worker, self.worker.membership
        done = self._goodbyes and not self._program and not membership.joining and not worker.installed_dataflows()
        if (membership.gone or done) and worker.part():
            self._end(ActorStatus.LEFT)

    def _end(self, status: ActorStatus) -> None:
        self._status = status
        self._program = None
        self.worker.shut_down()
