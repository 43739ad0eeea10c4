"""What comes in at one input: staged by attempts, released by commits, each batch exactly once.

A *query* sends numbered *batches*, each written by the attempts of several tasks. Nothing of an attempt is seen by the
dataflow until a commit names it; the others of that batch are dropped. The batch is then released at one epoch: that
of its own number for the first query, unless epochs have passed without a batch, for bins that moved meanwhile, say. A
batch that is committed again is acknowledged, and nothing is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from operators.broker.spill import Blob
from operators.errors import RequestRefused


@dataclass(slots=True)
class Attempt:
    """What one attempt of a task has written so far."""

    query: str
    batch: int
    blobs: list[Blob] = field(default_factory=list)
    rows: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """A batch, to be fed at an epoch."""

    input: str
    epoch: int
    blobs: Sequence[Blob]
    rows: int
    last: bool
    """Whether the input ends with it."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The effects of a commit."""

    epoch: int
    release: Release | None
    """None if this batch was released before."""
    dropped: Sequence[Blob]
    """What is not needed any more."""


@dataclass(slots=True)
class Intake:
    """The state of one input: which attempts are staged, and which batches were released. Pure."""

    name: str
    epoch: int = 0
    """The least epoch that a batch can be released at."""
    closed: bool = False
    attempts: dict[str, Attempt] = field(default_factory=dict)
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By query, the number of the last batch that was released, and its epoch."""
    _skipped: set[int] = field(default_factory=set)
    """Numbers of batches that were committed without attempts: nothing in such a commit names its query."""

    def open(self, attempt: str, query: str, batch: int) -> bool:
        """Begin to stage; False if the batch was released before."""
        if attempt in self.attempts:
            raise RequestRefused(f"attempt {attempt!r} is being staged already")
        if self._is_past(query, batch):
            return False
        self._check_open()
        self._check_first(query, batch)
        self.attempts[attempt] = Attempt(query, batch)
        return True

    def stage(self, attempt: str, blob: Blob, rows: int) -> None:
        """Keep a part of an attempt."""
        staged = self._staged(attempt)
        assert not staged.complete, attempt
        staged.blobs.append(blob)
        staged.rows += rows

    def complete(self, attempt: str, rows: int) -> None:
        """All of an attempt has come; `rows` is the number that the sender counted."""
        staged = self._staged(attempt)
        if staged.rows != rows:
            raise RequestRefused(f"attempt {attempt!r} says that it has {rows} rows, and {staged.rows} have come")
        staged.complete = True

    def drop(self, attempts: Iterable[str]) -> list[Blob]:
        """Forget attempts; what they had staged."""
        return [blob for one in attempts if one in self.attempts for blob in self.attempts.pop(one).blobs]

    def commit(self, query: str, batch: int, attempts: Sequence[str], *, last: bool = False) -> Committed:
        """Release a batch that consists of these attempts, unless it was before."""
        if self._is_past(query, batch):
            stale = [one for one, staged in self.attempts.items() if (staged.query, staged.batch) == (query, batch)]
            return Committed(self._epoch(query, batch), None, self.drop(stale))
        self._check_open()
        self._check_first(query, batch)
        chosen = [self._complete(attempt, query, batch) for attempt in dict.fromkeys(attempts)]
        epoch = self._epoch(query, batch)
        blobs = [blob for staged in chosen for blob in staged.blobs]
        release = Release(self.name, epoch, blobs, sum(staged.rows for staged in chosen), last)
        for attempt in attempts:
            self.attempts.pop(attempt, None)
        stale = [one for one, staged in self.attempts.items() if staged.query == query and staged.batch <= batch]
        self._last[query] = batch, epoch
        self._skipped.clear()
        self.epoch = epoch + 1
        self.closed = last
        return Committed(epoch, release, self.drop(stale))

    def skip(self, batch: int) -> None:
        """A batch was committed without any attempt: it has no rows, and its query is not known."""
        self._skipped.add(batch)

    def close(self) -> Release | None:
        """Nothing more comes; the release that tells the dataflow so, unless it knows."""
        if self.closed:
            return None
        self.closed = True
        return Release(self.name, self.epoch, (), 0, last=True)

    def _staged(self, attempt: str) -> Attempt:
        if attempt not in self.attempts:
            raise RequestRefused(f"attempt {attempt!r} is not staged any more: its batch was committed without it")
        return self.attempts[attempt]

    def _is_past(self, query: str, batch: int) -> bool:
        return query in self._last and batch <= self._last[query][0]

    def _epoch(self, query: str, batch: int) -> int:
        """A query keeps its offset between batches and epochs; a new one begins where the input is."""
        if query not in self._last:
            return max(self.epoch, batch)
        last, epoch = self._last[query]
        return epoch + batch - last if batch <= last else max(self.epoch, epoch + batch - last)

    def _check_open(self) -> None:
        if self.closed:
            raise RequestRefused(f"input {self.name!r} has ended, and takes nothing any more")

    def _check_first(self, query: str, batch: int) -> None:
        if query in self._last or self._skipped.issuperset(range(batch)):
            return
        raise RequestRefused(
            f"batch {batch} of query {query} came to input {self.name!r}, which has none of its earlier ones: this job "
            f"has begun after them, and its results would lack what they brought; begin the query with a new checkpoint"
        )

    def _complete(self, attempt: str, query: str, batch: int) -> Attempt:
        staged = self.attempts.get(attempt)
        if staged is None or not staged.complete:
            raise RequestRefused(
                f"batch {batch} of query {query} names attempt {attempt!r}, which input {self.name!r} "
                f"has not received{'' if staged is None else ' in full'}: the job was started again, or the connection "
                f"broke; start the query again, and it sends the batch again"
            )
        if (staged.query, staged.batch) != (query, batch):
            raise RequestRefused(f"attempt {attempt!r} was staged for batch {staged.batch} of query {staged.query}")
        return staged
