"""What comes in at one input: staged by attempts, decided by commits, released to the job, each batch exactly once.

A *query* sends numbered *batches*, each written by the attempts of several tasks. Nothing of an attempt is seen by the
dataflow until a commit names it; the others of that batch are dropped. That is the batch's *decision*. Decisions are
released in their order, when the job takes more in, and only then have epochs: a query's numbers go up with its epochs,
and those of the first query are the same, unless epochs have passed without a batch, for bins that moved meanwhile,
say. A batch that is committed again is acknowledged, and nothing is released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from operators.broker.segments import Extent
from operators.errors import RequestRefused

AHEAD_MAX = 2
"""How many batches of an input may be under way when the commit of the last one is answered."""

EXPIRED_MAX = 1000
"""Of how many attempts that have expired it is known that they have."""


@dataclass(frozen=True, slots=True)
class BatchId:
    """What the attempts of a batch have in common."""

    query: str
    batch: int


@dataclass(slots=True)
class Attempt:
    """What one attempt of a task has written so far."""

    of: BatchId
    extents: list[Extent] = field(default_factory=list)
    rows: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch that counts, and what it consists of."""

    of: BatchId | None
    """None for the end of the input."""
    extents: Sequence[Extent]
    rows: int
    last: bool
    """Whether the input ends with it."""


@dataclass(frozen=True, slots=True)
class Release:
    """A decision, to be fed at an epoch."""

    input: str
    epoch: int
    extents: Sequence[Extent]
    rows: int
    last: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """The effects of a commit."""

    number: int
    """Of the decision: how many there were at this input by then."""
    new: bool
    """Whether the batch was not committed before."""
    dropped: Sequence[Extent]
    """What can be freed."""


@dataclass(slots=True)
class Intake:
    """The state of one input: which attempts are staged, and which batches were decided and released. Pure."""

    name: str
    epoch: int = 0
    """The least epoch that a batch can be released at."""
    closed: bool = False
    """Whether nothing more is taken, though there may be decisions to be released."""
    attempts: dict[str, Attempt] = field(default_factory=dict)
    decided: int = 0
    """How many decisions there were."""
    waiting: deque[Decision] = field(default_factory=deque)
    """Those that are not released."""
    under_way: deque[int] = field(default_factory=deque)
    """The epochs of those that are released, and that the job has not completed."""
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By query, the number of the last batch that was decided, and of its decision."""
    _lead: dict[str, int] = field(default_factory=dict)
    """By query, how much the epochs of its batches are ahead of their numbers."""
    _empty: dict[str, int] = field(default_factory=dict)
    """By checkpoint, how many batches its query has begun with that had no attempts."""
    _touched_s: dict[BatchId, float] = field(default_factory=dict)
    """When something last happened to the attempts of each batch that has any."""
    _expired: dict[str, None] = field(default_factory=dict)

    # Staging

    def open(self, attempt: str, query: str, batch: int, now_s: float) -> bool:
        """Begin to stage; False if the batch was decided before."""
        if attempt in self.attempts:
            raise RequestRefused(f"attempt {attempt!r} is being staged already")
        of = BatchId(query, batch)
        if self._is_past(of):
            return False
        self._check_open()
        self.attempts[attempt] = Attempt(of)
        self._touched_s[of] = now_s
        return True

    def stage(self, attempt: str, extent: Extent, rows: int) -> None:
        """Keep a part of an attempt."""
        staged = self._staged(attempt)
        assert not staged.complete, attempt
        staged.extents.append(extent)
        staged.rows += rows

    def complete(self, attempt: str, rows: int, now_s: float) -> None:
        """All of an attempt has come; `rows` is the number that the sender counted."""
        staged = self._staged(attempt)
        if staged.rows != rows:
            raise RequestRefused(f"attempt {attempt!r} says that it has {rows} rows, and {staged.rows} have come")
        staged.complete = True
        self._touched_s[staged.of] = now_s

    def drop(self, attempts: Iterable[str], now_s: float) -> list[Extent]:
        """Forget attempts; what they had staged."""
        dropped: list[Extent] = []
        for attempt in attempts:
            if (staged := self.attempts.pop(attempt, None)) is not None:
                dropped += staged.extents
                self._touched_s[staged.of] = now_s
        self._forget_untouched()
        return dropped

    def expire(self, before_s: float) -> list[Extent]:
        """Forget the attempts of batches to which nothing has happened since then, if none of them is being staged."""
        staging = {staged.of for staged in self.attempts.values() if not staged.complete}
        stale = {of for of, touched_s in self._touched_s.items() if touched_s < before_s} - staging
        gone = [attempt for attempt, staged in self.attempts.items() if staged.of in stale]
        self._expired.update(dict.fromkeys(gone))
        for attempt in list(self._expired)[:-EXPIRED_MAX]:
            del self._expired[attempt]
        return self.drop(gone, before_s)

    # Deciding

    def commit(
        self, query: str, batch: int, attempts: Sequence[str], *, checkpoint: str | None = None, last: bool = False
    ) -> Committed:
        """Decide that a batch consists of these attempts, unless it was decided before.

        `checkpoint` tells which of the batches that were skipped are this query's.
        """
        of = BatchId(query, batch)
        if self._is_past(of):
            return Committed(self._last[query][1], False, self._drop_up_to(of))
        self._check_open()
        self._check_first(of, checkpoint)
        named = list(dict.fromkeys(attempts))
        chosen = [self._complete(attempt, of) for attempt in named]
        extents = [extent for staged in chosen for extent in staged.extents]
        for attempt in named:
            del self.attempts[attempt]
        self._decide(Decision(of, extents, sum(staged.rows for staged in chosen), last))
        self._last[query] = batch, self.decided
        if checkpoint is not None:
            self._empty.pop(checkpoint, None)
        return Committed(self.decided, True, self._drop_up_to(of))

    def skip(self, checkpoint: str | None, batch: int) -> None:
        """A batch was committed without any attempt: it has no rows, and of its query the checkpoint is known, or not.

        A query whose checkpoint is not known cannot begin with such batches: they might be another's.
        """
        if checkpoint is not None and batch == (self._empty.get(checkpoint, 0) if batch else 0):
            self._empty[checkpoint] = batch + 1

    def close(self) -> None:
        """Nothing more comes; the job learns of it behind what was decided before."""
        if not self.closed:
            self._decide(Decision(None, (), 0, last=True))

    def _decide(self, decision: Decision) -> None:
        self.waiting.append(decision)
        self.decided += 1
        self.closed = decision.last

    # Releasing

    def release(self) -> Release:
        """The first decision that waits, at its epoch."""
        decision = self.waiting.popleft()
        epoch = self.epoch
        if decision.of is not None:
            query, batch = decision.of.query, decision.of.batch
            epoch = max(epoch, batch + self._lead.get(query, 0))
            self._lead[query] = epoch - batch
        self.epoch = epoch + 1
        self.under_way.append(epoch)
        return Release(self.name, epoch, decision.extents, decision.rows, decision.last)

    def pass_to(self, epoch: int) -> None:
        """Release nothing before `epoch` from now on."""
        self.epoch = max(self.epoch, epoch)

    def complete_before(self, epoch: int) -> None:
        """The job has completed the epochs before this one."""
        while self.under_way and self.under_way[0] < epoch:
            self.under_way.popleft()

    def keeps_up(self, number: int) -> bool:
        """Whether at most `AHEAD_MAX` batches are under way, of those up to this number."""
        complete = self.decided - len(self.waiting) - len(self.under_way)
        return number - complete <= AHEAD_MAX

    @property
    def released(self) -> int:
        """How many decisions were released."""
        return self.decided - len(self.waiting)

    # Checks

    def _staged(self, attempt: str) -> Attempt:
        if attempt not in self.attempts:
            raise RequestRefused(f"attempt {attempt!r} is no longer staged: its batch was committed without it")
        return self.attempts[attempt]

    def _is_past(self, of: BatchId) -> bool:
        return of.query in self._last and of.batch <= self._last[of.query][0]

    def _check_open(self) -> None:
        if self.closed:
            raise RequestRefused(f"input {self.name!r} has ended, and takes nothing more")

    def _check_first(self, of: BatchId, checkpoint: str | None) -> None:
        if of.query in self._last or of.batch <= self._empty.get(checkpoint or "", 0):
            return
        unnamed = (
            ""
            if checkpoint is not None
            else "; if those had no rows, name its checkpoint with "
            '.option("checkpointLocation", …), by which they are known'
        )
        raise RequestRefused(
            f"batch {of.batch} of query {of.query} came to input {self.name!r}, which has none of its earlier ones: "
            f"this job has begun after them, and its results would lack what they brought; begin the query with a new "
            f"checkpoint{unnamed}"
        )

    def _complete(self, attempt: str, of: BatchId) -> Attempt:
        staged = self.attempts.get(attempt)
        if staged is None or not staged.complete:
            if attempt in self._expired:
                why = "kept: its batch was not committed for too long (--attempt-timeout)"
            else:
                part = "" if staged is None else " in full"
                why = f"received{part}: the job was started again, or the connection broke"
            raise RequestRefused(
                f"batch {of.batch} of query {of.query} names attempt {attempt!r}, which input {self.name!r} has not "
                f"{why}; start the query again, and it sends the batch again"
            )
        if staged.of != of:
            raise RequestRefused(
                f"attempt {attempt!r} was staged for batch {staged.of.batch} of query {staged.of.query}"
            )
        return staged

    def _drop_up_to(self, of: BatchId) -> list[Extent]:
        """Forget what is staged of a batch and of those before it."""
        stale = [
            attempt
            for attempt, staged in self.attempts.items()
            if staged.of.query == of.query and staged.of.batch <= of.batch
        ]
        dropped = [extent for attempt in stale for extent in self.attempts.pop(attempt).extents]
        self._forget_untouched()
        return dropped

    def _forget_untouched(self) -> None:
        alive = {staged.of for staged in self.attempts.values()}
        for of in self._touched_s.keys() - alive:
            del self._touched_s[of]
