"""What an operator of the job may say on a control stream, and what becomes of it: configurations, or refusals.

A `Control` is a record like any other: it has a time, and from that time on it holds. Messages with one `sequence` form
one set; each says how many there are (`count`) and all have one time. A set takes effect as a whole or not at all, so
that several senders can contribute to it::

    Control(7, 2, Move(BinId(17), WorkerId(2)))   and   Control(7, 2, Move(BinId(40), WorkerId(0)))

The `Compiler` decides what the messages of one time amount to, once the control frontier has passed it. F drives it: it
adds messages as they arrive, compiles times in ascending order, and hands configurations to the `RoutingTable`. Nothing
here raises, whatever came on the control stream: what is wrong is refused with a reason, and the job goes on.

Every worker compiles the same stream and must come to the same result, whatever the order of arrival. So a decision at
a time depends only on messages at or before it (later ones may or may not have arrived) and on the owners at that time.
Nor does it depend on who is a member just then, of which workers learn at different moments: who may own bins is itself
decided on the stream. The workers that the job began with may; a `Bootstrap` adds its joiner, a `Retire` takes its
worker away. (The one exception: a `Bootstrap` names a worker that has joined. Send it after that is so on all workers,
as `ControlInput` does.)

Importing this module is enough to send and receive its values between processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.membership.members import WorkerId
from framework.progress.order import EPOCH_MAX
from framework.wire import codec
from routing.bins import BinId

REFUSED_MAX = 1024
"""How many refused sequences are remembered, so that a late part of one is not taken for a set of its own."""

SHOWN_MAX = 8
"""How many workers a reason lists."""


@dataclass(frozen=True, slots=True)
class Map:
    """The owner of every bin, bin 0 first: of the operators of a group, or of all that listen."""

    owners: tuple[WorkerId, ...]
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One bin and its new owner: of the operators of a group, or of all that listen."""

    bin_id: BinId
    worker: WorkerId
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Let `server` tell `joiner` who owns what. There is nothing else at its time."""

    server: WorkerId
    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Retire:
    """Let `worker`, which no longer owns a bin, never own one again: it is about to leave. Alone at its time, too."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Weigh:
    """Let every worker tell `worker` what is in its bins, and how many records come to them. Alone at its time, too."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Noop:
    """Nothing: what a sender contributes to a set when it has nothing to move."""


Instruction = Map | Move | Bootstrap | Retire | Weigh | Noop
"""What a message on a control stream says."""


@dataclass(frozen=True, slots=True)
class Control:
    """One message of the set `sequence`, which has `count` of them."""

    sequence: int
    count: int
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Configuration:
    """From `time` on, these bins have these owners: those that change, by ascending bin. May be empty."""

    time: int
    sequence: int
    moves: Mapping[BinId, WorkerId]


@dataclass(frozen=True, slots=True)
class Handover:
    """At `time`, `server` sends its routing state to `joiner`."""

    time: int
    sequence: int
    server: WorkerId
    joiner: WorkerId


@dataclass(frozen=True, slots=True)
class Retirement:
    """From `time` on, `worker` owns nothing, for good."""

    time: int
    sequence: int
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Weighing:
    """At `time`, every worker tells `worker` what its bins weigh."""

    time: int
    sequence: int
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class Refused:
    """Messages that had no effect, and why. The sequence is None if the message did not have one."""

    time: int
    sequence: int | None
    reason: str


CompiledCommand = Configuration | Handover | Retirement | Weighing | Refused


@dataclass(frozen=True, slots=True)
class Malformed:
    """Stands for a record that is no proper `Control`."""

    sequence: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class CompilerState:
    """What a joiner must know to decide as the others do."""

    through: int
    sequence: int
    eligible: tuple[WorkerId, ...]
    refused: tuple[tuple[int, int], ...]
    arrived: tuple[tuple[int, tuple[Control | Malformed, ...]], ...]


# Qualified, so that a job may register a `Move` of its own.
for _kind in (
    Map,
    Move,
    Bootstrap,
    Retire,
    Weigh,
    Noop,
    Control,
    Configuration,
    Handover,
    Retirement,
    Weighing,
    Refused,
    Malformed,
    CompilerState,
):
    codec.register(_kind, f"routing.{_kind.__name__}")


@dataclass(slots=True)
class Compiler:
    """The control messages that wait for their time, and what was decided about earlier ones."""

    eligible: set[WorkerId]
    """The workers that may own bins."""
    group: str | None = None
    """The group of operators that it decides for: what names another is no concern of theirs."""
    sequence: int = -1
    """The newest that was accepted."""
    through: int = -1
    """All times up to this one are decided."""
    _inherited: int = -1
    """Up to here another worker has decided (see `restore`)."""
    _refused: dict[int, int] = field(default_factory=dict)
    """Sequences newer than the accepted one, and the time at which each was first refused."""
    _arrived: dict[int, list[Control | Malformed]] = field(default_factory=dict)
    _passed_on: dict[int, Counter[Control | Malformed]] = field(default_factory=dict)
    """By time, the messages that were inherited and have not come to this worker itself."""

    def add(self, time: int, record: Any) -> None:
        """Take a record of the control stream; `time` is not yet compiled."""
        if time <= self._inherited:
            return
        assert time > self.through, f"a control message at {time} after that time was compiled: {record!r}"
        message = _examine(record)
        passed_on = self._passed_on.get(time)
        if passed_on and passed_on[message]:
            passed_on[message] -= 1
        else:
            self._arrived.setdefault(time, []).append(message)

    @property
    def times(self) -> list[int]:
        """The times that have messages and wait to be compiled, in ascending order."""
        return sorted(self._arrived)

    def waiting(self, time: int) -> Sequence[Control | Malformed]:
        """The messages at `time` that have arrived and wait to be compiled."""
        return self._arrived.get(time, ())

    def compile(self, time: int, table: Sequence[WorkerId], members: Collection[WorkerId]) -> list[CompiledCommand]:
        """Decide about all messages at `time`, which the control frontier has passed; in order of sequence.

        `table` is the owner of each bin at `time` by all that was decided before, `RoutingTable.owners_at(time)`.
        `members` are those that a joiner must be among.
        """
        if time <= self._inherited:
            return []
        assert time > self.through, f"time {time} was compiled already; the compiler is at {self.through}"
        assert all(time <= waiting for waiting in self._arrived), f"{self.times[0]} waits, so {time} is not next"
        self.through = time
        self._passed_on.pop(time, None)
        messages = self._arrived.pop(time, [])
        outcomes: dict[int, CompiledCommand] = {}
        accepted: dict[int, dict[BinId, WorkerId]] = {}
        for sequence, group in sorted(_by_sequence(messages).items()):
            reason = self._objection(time, sequence, group, len(messages)) or self._fault(group, table, members)
            if reason is not None:
                outcomes[sequence] = Refused(time, sequence, reason)
                self._remember(sequence, time)
                continue
            self._accept(sequence)
            match group:
                case [Control(instruction=Bootstrap(server, joiner))]:
                    self.eligible.add(joiner)
                    outcomes[sequence] = Handover(time, sequence, server, joiner)
                case [Control(instruction=Retire(worker))]:
                    self.eligible.discard(worker)
                    outcomes[sequence] = Retirement(time, sequence, worker)
                case [Control(instruction=Weigh(worker))]:
                    outcomes[sequence] = Weighing(time, sequence, worker)
                case _:
                    accepted[sequence] = dict(_assignments(self._own(group)))
        for sequence, moves in _net(accepted, table).items():
            outcomes[sequence] = Configuration(time, sequence, moves)
        strangers = sorted(message.reason for message in messages if message.sequence is None)
        return [
            *(Refused(time, None, reason) for reason in strangers),
            *(outcomes[at] for at in sorted(outcomes)),
        ]

    def state(self) -> CompilerState:
        """What a joiner restores; encodable."""
        arrived = tuple((time, tuple(self._arrived[time])) for time in self.times)
        eligible = tuple(sorted(self.eligible))
        return CompilerState(self.through, self.sequence, eligible, tuple(self._refused.items()), arrived)

    def restore(self, state: CompilerState) -> None:
        """Go on from where the server of a bootstrap is.

        Times that it has decided are not decided again. Of later times, both may have received some messages, and
        each message at most once: what either has is what has arrived, and what the server alone has may still come.
        (Equal messages of two senders, one of which comes to the server only and one to the joiner only, are taken for
        one.)
        """
        self.through = max(self.through, state.through)
        self.sequence, self._inherited, self._refused = state.sequence, state.through, dict(state.refused)
        self.eligible = set(state.eligible)
        theirs = dict(state.arrived)
        self._passed_on = {
            time: Counter(messages) - Counter(self._arrived.get(time, ())) for time, messages in theirs.items()
        }
        self._arrived = {
            time: list((Counter(self._arrived.get(time, ())) | Counter(theirs.get(time, ()))).elements())
            for time in self._arrived.keys() | theirs.keys()
            if time > self._inherited
        }

    def _objection(self, time: int, sequence: int, group: list[Control | Malformed], at_time: int) -> str | None:
        """What is wrong with a set as a set, if anything; `at_time` is the number of all messages at its time."""
        malformed = sorted(message.reason for message in group if isinstance(message, Malformed))
        if malformed:
            return malformed[0]
        controls = [message for message in group if isinstance(message, Control)]
        if sequence <= self.sequence:
            return (
                f"sequence {sequence} is not newer than {self.sequence}, the last that was accepted; "
                f"send the set again with sequence {self.sequence + 1} or more"
            )
        if sequence in self._refused:
            return (
                f"sequence {sequence} was refused at time {self._refused[sequence]} and has messages at {time}; all "
                f"messages of a set have one time; send the whole set again at one time, with a newer sequence"
            )
        counts = sorted({control.count for control in controls})
        if len(counts) > 1:
            return (
                f"messages of sequence {sequence} expect sets of {counts[0]} and of {counts[-1]}; "
                f"send the set again with a newer sequence and one count, the number of its messages"
            )
        if len(controls) != counts[0]:
            return (
                f"sequence {sequence} should have {counts[0]} message(s), but {len(controls)} came at time {time}, "
                f"which has passed; send the whole set again at one time, with a newer sequence"
            )
        for kind in (Bootstrap, Retire, Weigh):
            if at_time > 1 and any(isinstance(control.instruction, kind) for control in controls):
                return (
                    f"a {kind.__name__} must be the only message at its time, but {at_time} came at time {time}; "
                    f"send it again at a time of its own"
                )
        return None

    def _fault(
        self, group: Iterable[Control | Malformed], table: Sequence[WorkerId], members: Collection[WorkerId]
    ) -> str | None:
        """What is wrong with the instructions of a set, if anything: the same fault for every order of arrival."""
        controls = self._own(group)
        found = [_fault_of(control, table, self.eligible, members) for control in controls]
        faults = {fault for fault in found if fault is not None}
        return min(faults) if faults else _contradiction(controls)

    def _own(self, group: Iterable[Control | Malformed]) -> list[Control]:
        """The messages of a set that concern this group of operators."""
        controls = [message for message in group if isinstance(message, Control)]
        return [
            control
            for control in controls
            if not isinstance(control.instruction, Map | Move) or control.instruction.group in (None, self.group)
        ]

    def _accept(self, sequence: int) -> None:
        self.sequence = sequence
        self._refused = {other: time for other, time in self._refused.items() if other > sequence}

    def _remember(self, sequence: int, time: int) -> None:
        if sequence > self.sequence:
            self._refused.setdefault(sequence, time)
        if len(self._refused) > REFUSED_MAX:
            # The farthest off is forgotten: the next that are sent are near the last accepted one.
            del self._refused[max(self._refused)]


def _by_sequence(messages: Iterable[Control | Malformed]) -> dict[int, list[Control | Malformed]]:
    groups: dict[int, list[Control | Malformed]] = {}
    for message in messages:
        if message.sequence is not None:
            groups.setdefault(message.sequence, []).append(message)
    return groups


def _assignments(controls: Iterable[Control]) -> Iterator[tuple[BinId, WorkerId]]:
    """Every bin that the set names, with its owner; a bin may come up more than once."""
    for control in controls:
        match control.instruction:
            case Map(owners):
                yield from ((BinId(index), owner) for index, owner in enumerate(owners))
            case Move(bin_id, worker):
                yield bin_id, worker


def _net(accepted: dict[int, dict[BinId, WorkerId]], table: Sequence[WorkerId]) -> dict[int, dict[BinId, WorkerId]]:
    """What each set of one time changes in the end.

    State at one time takes one hop: a bin that two sets move goes from its owner before this time straight to where the
    last of them wants it, since a worker in between would have to ship what it has not received.
    """
    last: dict[BinId, tuple[int, WorkerId]] = {}
    for sequence, assignment in accepted.items():
        last |= {bin_id: (sequence, worker) for bin_id, worker in assignment.items()}
    moves: dict[int, dict[BinId, WorkerId]] = {sequence: {} for sequence in accepted}
    for bin_id, (sequence, worker) in sorted(last.items()):
        if table[bin_id] != worker:
            moves[sequence][bin_id] = worker
    return moves


def _fault_of(
    control: Control, table: Sequence[WorkerId], eligible: Collection[WorkerId], members: Collection[WorkerId]
) -> str | None:
    match control.instruction:
        case Map(owners):
            if len(owners) != len(table):
                return f"a Map has {len(owners)} owners, but there are {len(table)} bins; name one owner for each bin"
            return _strangers("a Map names", set(owners), eligible)
        case Move(bin_id, worker):
            if not 0 <= bin_id < len(table):
                return f"a Move names bin {bin_id}, but the bins are 0 to {len(table) - 1}; name one of these"
            return _strangers(f"a Move of bin {bin_id} names", {worker}, eligible)
        case Bootstrap(server, joiner):
            if joiner in eligible:
                return f"a Bootstrap names worker {joiner} as joiner, which knows already who owns what"
            if joiner not in members:
                return (
                    f"a Bootstrap names worker {joiner} as joiner, which is not a member; "
                    f"let it join, and send the command when it has"
                )
            return _strangers("a Bootstrap names", {server}, eligible)
        case Retire(worker):
            owned = sum(owner == worker for owner in table)
            if owned:
                return f"worker {worker} cannot retire, it owns {owned} bin(s); move them first"
            if len(eligible) == 1 and worker in eligible:
                return f"worker {worker} cannot retire, it is the last that may own bins"
            return _strangers("a Retire names", {worker}, eligible)
        case Weigh(worker):
            return _strangers("a Weigh names", {worker}, eligible)
        case Noop():
            return None


def _strangers(what: str, named: set[WorkerId], members: Collection[WorkerId]) -> str | None:
    strangers = named.difference(members)
    if not strangers:
        return None
    return f"{what} {_workers(strangers)}, not among those that may own bins: {_workers(members)}; name one of these"


def _workers(workers: Iterable[WorkerId]) -> str:
    ordered = sorted(workers)
    shown = ", ".join(map(str, ordered[:SHOWN_MAX]))
    return f"worker{'s' * (len(ordered) != 1)} {shown}{', …' * (len(ordered) > SHOWN_MAX)}"


def _contradiction(controls: list[Control]) -> str | None:
    owners: dict[BinId, set[WorkerId]] = {}
    for bin_id, worker in _assignments(controls):
        owners.setdefault(bin_id, set()).add(worker)
    torn = [bin_id for bin_id, workers in owners.items() if len(workers) > 1]
    if not torn:
        return None
    return (
        f"one set gives bin {min(torn)} to {_workers(owners[min(torn)])}; "
        f"name each bin once in a set, or send two sets with two sequences"
    )


def _examine(record: Any) -> Control | Malformed:
    """The record, or what is wrong with its types: it may come from anywhere."""
    if not isinstance(record, Control):
        return Malformed(None, f"{_show(record)} came as a control message; {_REMEDY}")
    if not _is_int(record.sequence) or record.sequence < 0:
        return Malformed(None, f"a Control has the sequence {_show(record.sequence)}; number the sets from 0 on")
    instruction = record.instruction
    numbers: Sequence[Any]
    match instruction:
        case Map(owners) if isinstance(owners, tuple):
            numbers = owners
        case Move(bin_id, worker):
            numbers = (bin_id, worker)
        case Bootstrap(server, joiner):
            numbers = (server, joiner)
        case Retire(worker) | Weigh(worker):
            numbers = (worker,)
        case Noop():
            numbers = ()
        case _:
            what = f"a Map of {_show(instruction.owners)}" if isinstance(instruction, Map) else _show(instruction)
            return Malformed(record.sequence, f"{what} came as an instruction; {_REMEDY}")
    if not _is_int(record.count) or record.count < 1:
        return Malformed(
            record.sequence,
            f"a Control has the count {_show(record.count)}; say how many messages its set has, at least 1",
        )
    if isinstance(instruction, Map | Move) and not isinstance(instruction.group, str | None):
        return Malformed(
            record.sequence,
            f"a {type(instruction).__name__} names {_show(instruction.group)} as its group; name one by its string, or "
            "None for all that listen",
        )
    for number in numbers:
        if not _is_int(number):
            return Malformed(
                record.sequence,
                f"a {type(instruction).__name__} has {_show(number)} where the number of a bin or worker should be; "
                f"{_REMEDY}",
            )
    return record


_REMEDY = (
    "send Control(sequence, count, instruction) with a Map(owners), a Move(bin_id, worker), a Bootstrap, Retire, Weigh "
    "or Noop"
)


def _is_int(value: Any) -> bool:
    return type(value) is int and -EPOCH_MAX <= value <= EPOCH_MAX


def _show(value: Any) -> str:
    """A value of any kind in a few words, the same in every process."""
    if value is None or isinstance(value, bool) or _is_int(value):
        return repr(value)
    if type(value) is str:
        return repr(value[:40])
    return f"a value of type {type(value).__qualname__}"
