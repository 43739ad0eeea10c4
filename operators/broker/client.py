"""The client of a broker: feeds a job's inputs and reads its outputs, from any process that knows its credentials."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.errors import HailerError, ProtocolError
from framework.membership.members import Address
from framework.net.connect import Patience, connect_link
from framework.wire.columns import decode_batch, encode_batch, split_batch
from framework.wire.credentials import Credentials
from framework.wire.purpose import BrokerConnection
from operators.broker.connection import DATA_BYTES_MAX, SILENCE_S, Connection
from operators.errors import JobLost, RequestRefused

if TYPE_CHECKING:
    import pyarrow as pa

CONNECT_S = 10.0

ANSWERS_LOST_MAX = 3
"""How often an answer may be lost while the job can be reached."""


class _Unreachable(JobLost):
    """Nobody answers at a job's address."""


Pieces = Sequence[Sequence[int]]
"""Which rows of an output to read, as `parts` names them."""


@dataclass(frozen=True, slots=True)
class BrokerClient:
    """Calls the broker of one job, over a connection for each call. A value that can be shipped to tasks."""

    address: Address
    credentials: Credentials

    def stage(self, input: str, attempt: str, query: str, batch: int, batches: Iterable[pa.RecordBatch]) -> int | None:
        """Send all rows of an attempt; how many they are, or None if this batch was committed before."""
        with self._connect() as job:
            job.send("stage", input, attempt, query, batch)
            if _receive(job)[0] == "done":
                return None
            rows = 0
            for one in batches:
                for data, some in _pieces(one):
                    job.send("batch", data, some)
                    rows += some
            job.send("complete", rows)
            _answer(job)
            return rows

    def commit(
        self,
        input: str,
        query: str,
        batch: int,
        attempts: Sequence[str],
        *,
        checkpoint: str | None = None,
        last: bool = False,
    ) -> bool:
        """Commit a batch that consists of these attempts; whether the job did not know that it was committed.

        `checkpoint` is where the query keeps its own state: it is what `skip` knows it by.
        """
        [new] = self._ask("commit", input, query, batch, list(attempts), checkpoint, last)
        return bool(new)

    def skip(self, input: str, checkpoint: str | None, batch: int) -> None:
        """Commit a batch that has no rows and no attempts, and so nothing that names its query."""
        self._ask("skip", input, checkpoint, batch)

    def abort(self, input: str, attempts: Sequence[str]) -> None:
        """Have attempts dropped."""
        self._ask("abort", input, list(attempts))

    def latest(
        self,
        output: str,
        start: int | None = None,
        *,
        rows_max: int | None = None,
        bytes_max: int | None = None,
        settle: bool = False,
        within_s: float = 0.0,
    ) -> tuple[int, int]:
        """The first offset that is kept, and the offset up to which one may read from `start` on.

        With `settle`, it waits until all that was committed has come out. While there is nothing to read from `start`
        on, it waits for up to `within_s`.
        """
        first, end = self._ask("latest", output, start, rows_max, bytes_max, settle, within_s)
        return first, end

    def parts(self, output: str, start: int, end: int) -> list[Pieces]:
        """What lies between two offsets, cut into parts to be read side by side."""
        [parts] = self._ask("parts", output, start, end)
        return list(parts)

    def read(self, output: str, pieces: Pieces) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        with self._connect() as job:
            job.send("read", output, [list(piece) for piece in pieces])
            while (message := _receive(job))[0] == "batch":
                yield decode_batch(message[1])

    def forget(self, output: str, end: int) -> None:
        """Have the job forget what lies before an offset."""
        self._ask("forget", output, end)

    def finish(self, inputs: Sequence[str] = ()) -> None:
        """End these inputs, or all if none is named."""
        self._ask("finish", list(inputs))

    def _ask(self, *request: Any) -> list[Any]:
        """Make a request, again if its answer is lost: to be asked twice makes no difference to the job."""
        lost: JobLost | None = None
        for _ in range(ANSWERS_LOST_MAX):
            try:
                with self._connect() as job:
                    job.send(*request)
                    return _answer(job)
            except _Unreachable as error:
                raise lost or error from error
            except JobLost as error:
                lost = error
        assert lost is not None
        raise lost

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        try:
            patience = Patience(time.monotonic() + CONNECT_S, lambda: False)
            connection, leftover = connect_link(self.address, BrokerConnection(), self.credentials, patience)
        except (OSError, HailerError) as error:
            host, port = self.address
            raise _Unreachable(f"the job cannot be reached at {host}:{port} ({error}); has it ended?") from error
        job = Connection(connection, leftover, silence_s=SILENCE_S)
        try:
            yield job
        finally:
            job.close()


def _receive(job: Connection) -> list[Any]:
    """The next message that is no heartbeat."""
    while (message := job.receive()) is not None:
        match message:
            case ["wait"]:
                continue
            case ["refused", str(reason)]:
                raise RequestRefused(reason)
        return message
    raise JobLost("the job hung up; its own report says why it ended")


def _answer(job: Connection) -> list[Any]:
    match _receive(job):
        case ["done", *answer]:
            return answer
        case message:
            raise ProtocolError(f"{message[0]!r} instead of an answer")


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[bytes, int]]:
    """The bytes of a batch, halved until each piece fits into a message."""
    if not len(batch):
        return
    data = encode_batch(batch)
    if len(data) <= DATA_BYTES_MAX:
        yield data, len(batch)
        return
    if len(batch) == 1:
        raise RequestRefused(f"a row of {len(data):,} bytes is more than the {DATA_BYTES_MAX:,} that can be sent")
    for half in split_batch(batch):
        yield from _pieces(half)
