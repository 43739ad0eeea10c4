"""Whatever clients, readers, the disk and the job do: each batch is released once or refused with a reason, readers see
each epoch of each output whole and once, no budget is exceeded, and nothing is left when all is dropped.

The model is a list of what was committed and a dictionary of what has come out. The machine is all that a broker
decides with: flow control, intakes, outboxes, a budget, and the segments of the logs. What the broker itself does with
threads and files is done here in a line each.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from framework.progress.order import EPOCH_MAX
from operators.broker.budget import DiskBudget
from operators.broker.flow_control import RELEASED_MAX, FlowControl
from operators.broker.intake import Intake, Release
from operators.broker.outbox import DeferredRows, KeptRows, Outbox
from operators.broker.segments import Extent, Segments
from operators.errors import RequestRefused

INPUTS, OUTPUTS = ("lines", "table"), ("counts", "rejected")
BUDGET = DiskBudget(staged_bytes=60, unread_bytes=40, reserve_bytes=10)
DISK = 140
SEGMENT = 8
STALE_S = 10.0


@dataclass
class Query:
    """A query of Spark's, as far as its checkpoint knows. With none it has no name for batches without tasks."""

    name: str
    input: str
    checkpoint: str | None
    batch: int = 0
    done: int = 0
    """Batches before this one were acknowledged, whether the checkpoint knows it or not."""
    known: int = 0
    """Batches before this one are known to the job: it has committed one with a task since."""
    attempts: list[str] = field(default_factory=list)
    """Those of its batch that a commit may name."""


@dataclass
class Log:
    """Bytes in segments: what the files are to a broker."""

    segments: Segments = field(default_factory=lambda: Segments(SEGMENT))
    data: dict[Extent, str] = field(default_factory=dict)

    def append(self, data: str, size: int) -> Extent:
        extent = self.segments.append(size)
        self.data[extent] = data
        return extent

    def drop(self, extent: Extent) -> str:
        self.segments.drop(extent)
        return self.data.pop(extent)


queries = st.integers(0, 3)
sizes = st.integers(1, 12)
inputs, outputs = st.sampled_from(INPUTS), st.sampled_from(OUTPUTS)


class BrokerMachine(RuleBasedStateMachine):
    """Several queries feed two inputs; a job passes on what it is fed; readers read two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = FlowControl({name: Intake(name) for name in INPUTS}, {name: Outbox(name) for name in OUTPUTS})
        self.staged, self.unread = Log(), {name: Log() for name in OUTPUTS}
        self.others = 0
        """What other programs have on the disk."""
        self.now_s = 0.0
        self.names = count()
        self.queries = [
            Query("q", "lines", "there"),
            Query("r", "lines", "elsewhere"),
            Query("s", "lines", None),
            Query("t", "table", "there"),
        ]
        self.rows: dict[str, list[str]] = {}
        """Of each attempt."""
        self.staging: dict[str, Query] = {}
        """The attempts that are not complete."""
        self.complete_s: dict[str, float] = {}
        self.committed: dict[str, deque[Counter[str]]] = {name: deque() for name in INPUTS}
        """The rows of what was committed and is not released."""
        self.job: dict[str, deque[Release]] = {name: deque() for name in INPUTS}
        self.fed: dict[str, list[str]] = {}
        """The rows of what is in the job, by input and epoch."""
        self.ended: set[str] = set()
        self.inputs_at = dict.fromkeys(INPUTS, 0)
        """Which epoch the job's input is at."""
        self.came: dict[str, dict[int, list[str]]] = {name: {} for name in OUTPUTS}
        """By output and epoch, what came out."""

    @property
    def free(self) -> int:
        unread = sum(log.segments.occupied for log in self.unread.values())
        return DISK - self.others - self.staged.segments.occupied - unread

    @property
    def held(self) -> bool:
        unread = {name: log.segments.occupied for name, log in self.unread.items()}
        deferred = any(outbox.deferred for outbox in self.flow.outputs.values())
        return deferred or BUDGET.holds(unread, free=self.free) is not None

    def drop(self, extents: list[Extent]) -> None:
        for extent in extents:
            self.staged.drop(extent)

    # What tasks do

    @rule(query=queries, back=st.integers(0, 1))
    def open(self, query: int, back: int) -> None:
        one = self.queries[query]
        batch, attempt = max(0, one.batch - back), f"attempt {next(self.names)}"
        intake = self.flow.inputs[one.input]
        try:
            wanted = intake.open(attempt, one.name, batch, self.now_s)
        except RequestRefused:
            assert one.input in self.ended
            return
        assert wanted == (batch >= one.known)
        if wanted and batch == one.batch:
            self.staging[attempt] = one
            self.rows[attempt] = []
        elif wanted:
            self.drop(intake.drop([attempt], self.now_s))

    @precondition(lambda self: self.staging)
    @rule(data=st.data(), size=sizes)
    def stage(self, data: st.DataObject, size: int) -> None:
        attempt = data.draw(st.sampled_from(list(self.staging)))
        intake = self.flow.inputs[self.staging[attempt].input]
        refusal = BUDGET.refuses_to_stage(size, staged=self.staged.segments.occupied) or BUDGET.refuses_to_write(
            size, free=self.free, staging=True
        )
        if refusal is not None:
            self.drop(intake.drop([attempt], self.now_s))
            del self.staging[attempt]
            return
        row = f"row {next(self.names)}"
        extent = self.staged.append(row, size)
        try:
            intake.stage(attempt, extent, 1)
        except RequestRefused:
            assert attempt not in intake.attempts, "its batch was committed without it"
            self.staged.drop(extent)
            del self.staging[attempt]
            return
        self.rows[attempt].append(row)

    @precondition(lambda self: self.staging)
    @rule(data=st.data(), breaks=st.booleans())
    def end_staging(self, data: st.DataObject, breaks: bool) -> None:
        attempt = data.draw(st.sampled_from(list(self.staging)))
        query = self.staging.pop(attempt)
        intake = self.flow.inputs[query.input]
        if breaks or attempt not in intake.attempts:
            self.drop(intake.drop([attempt], self.now_s))
            return
        batch = intake.attempts[attempt].of.batch
        intake.complete(attempt, len(self.rows[attempt]), self.now_s)
        self.complete_s[attempt] = self.now_s
        if batch == query.batch:
            query.attempts.append(attempt)

    # What drivers do

    @rule(query=queries, data=st.data(), last=st.sampled_from([False] * 9 + [True]))
    def commit(self, query: int, data: st.DataObject, last: bool) -> None:
        one = self.queries[query]
        intake = self.flow.inputs[one.input]
        named = data.draw(st.lists(st.sampled_from(one.attempts), unique=True)) if one.attempts else []
        there = set(named) <= intake.attempts.keys()
        before = intake.decided
        try:
            committed = intake.commit(one.name, one.batch, named, checkpoint=one.checkpoint, last=last)
        except RequestRefused as error:
            self.check_refusal(str(error), one, there)
            assert intake.decided == before
            one.attempts.clear()  # the query has failed; it is started again, and sends the batch again
            return
        self.drop([*committed.dropped])
        assert committed.new == (one.batch >= one.known)
        if committed.new:
            assert there
            self.committed[one.input].append(Counter(row for attempt in named for row in self.rows[attempt]))
            if last:
                self.ended.add(one.input)
        one.known = max(one.known, one.batch + 1)
        self.follow_on(one)

    def check_refusal(self, said: str, query: Query, there: bool) -> None:
        """There is a reason for what is refused, and it is told."""
        if "has ended" in said:
            assert query.input in self.ended
        elif "none of its earlier ones" in said:
            assert not query.known
            assert query.batch > 0
            assert query.checkpoint is None
        else:
            assert "sends the batch again" in said
            assert not there

    @rule(query=queries)
    def skip(self, query: int) -> None:
        """All tasks of the batch are pruned: nothing is staged, and nothing names the query."""
        one = self.queries[query]
        if not one.attempts:
            self.flow.inputs[one.input].skip(one.checkpoint, one.batch)
            self.follow_on(one)

    def follow_on(self, query: Query) -> None:
        query.batch += 1
        query.done = max(query.done, query.batch)
        query.attempts = []

    @rule(query=queries)
    def restart(self, query: int) -> None:
        """From a checkpoint that does not know of the last commit."""
        one = self.queries[query]
        one.batch = max(0, one.done - 1)
        one.attempts = []

    @rule(query=queries)
    def abort(self, query: int) -> None:
        one = self.queries[query]
        self.drop(self.flow.inputs[one.input].drop(one.attempts, self.now_s))
        one.attempts = []

    @rule(later_s=st.floats(0.0, 8.0))
    def expire(self, later_s: float) -> None:
        self.now_s += later_s
        for intake in self.flow.inputs.values():
            before = dict(intake.attempts)
            self.drop(intake.expire(self.now_s - STALE_S))
            for attempt in before.keys() - intake.attempts.keys():
                assert attempt not in self.staging
                assert self.complete_s[attempt] < self.now_s - STALE_S

    @rule(input=inputs)
    def close(self, input: str) -> None:
        if input not in self.ended:
            self.committed[input].append(Counter())
            self.ended.add(input)
        self.flow.inputs[input].close()

    # What the job does

    @rule()
    def release(self) -> None:
        """It is fed with what is next, unless it is held."""
        if self.held:
            return
        under_way = {name: len(intake.under_way) for name, intake in self.flow.inputs.items()}
        release = self.flow.release()
        if release is None:
            return
        others = [name for name in INPUTS if name != release.input and not self.is_complete(name)]
        assert under_way[release.input] < RELEASED_MAX or any(
            self.flow.complete >= self.inputs_at[name] for name in others
        )
        rows = [self.staged.drop(extent) for extent in release.extents]
        assert Counter(rows) == self.committed[release.input].popleft(), "as committed, in that order, and once"
        assert len(rows) == release.rows
        assert release.epoch >= self.inputs_at[release.input]
        self.inputs_at[release.input] = EPOCH_MAX if release.last else release.epoch + 1
        self.job[release.input].append(release)
        self.fed[f"{release.input} {release.epoch}"] = rows

    def is_complete(self, input: str) -> bool:
        return self.inputs_at[input] == EPOCH_MAX

    @rule(epochs=st.integers(1, 3))
    def pass_epochs(self, epochs: int) -> None:
        """Bins move while nothing comes in, or nothing is taken in."""
        open_inputs = [name for name in INPUTS if not self.is_complete(name)]
        if open_inputs:
            to = max(self.inputs_at[name] for name in open_inputs) + epochs
            self.flow.pass_to(to)
            self.inputs_at.update(dict.fromkeys(open_inputs, to))

    @rule(size=sizes, output=outputs)
    def come_out(self, size: int, output: str) -> None:
        """The first epoch that is in the job comes out, one row after the other, to one output or both."""
        frontier = min(self.inputs_at.values())
        epoch = min((releases[0].epoch for releases in self.job.values() if releases), default=frontier)
        if epoch >= frontier:
            self.close_before(frontier)
            return
        for name in INPUTS:
            if self.job[name] and self.job[name][0].epoch == epoch:
                release = self.job[name].popleft()
                for row in self.fed.pop(f"{name} {release.epoch}"):
                    self.deliver(output, epoch, row, size)
                    self.deliver("rejected", epoch, f"not {row}", size)
        self.close_before(epoch + 1)

    def deliver(self, output: str, epoch: int, row: str, size: int) -> None:
        self.came[output].setdefault(epoch, []).append(row)
        outbox = self.flow.outputs[output]
        if outbox.deferred or BUDGET.refuses_to_write(size, free=self.free, staging=False) is not None:
            outbox.defer(DeferredRows(epoch, row.encode() + b"|" * size, 1))
        else:
            outbox.add(epoch, KeptRows(self.unread[output].append(row, size), 1))

    def close_before(self, epoch: int) -> None:
        for outbox in self.flow.outputs.values():
            outbox.close_before(epoch)
        self.flow.complete_before(epoch)

    @rule()
    def retry(self) -> None:
        """It looks whether there is room for what could not be written."""
        for name, outbox in self.flow.outputs.items():
            while outbox.deferred:
                row, _, padding = outbox.deferred[0].data.decode().partition("|")
                size = len(padding) + 1
                if BUDGET.refuses_to_write(size, free=self.free, staging=False) is not None:
                    break
                outbox.add_deferred(self.unread[name].append(row, size))

    @rule(others=st.integers(0, DISK))
    def fill_disk(self, others: int) -> None:
        """Other programs write to it, or make room."""
        self.others = others

    # What readers do

    @rule(output=outputs, rows_max=st.none() | st.integers(1, 5), bytes_max=st.none() | st.integers(1, 20))
    def read(self, output: str, rows_max: int | None, bytes_max: int | None) -> None:
        outbox = self.flow.outputs[output]
        start = outbox.forgotten
        end = outbox.after(start, rows_max=rows_max, bytes_max=bytes_max)
        read = [
            self.unread[output].data[extent]
            for part in outbox.parts(start, end)
            for epoch, first, last in part.pieces
            for extent in outbox.read(epoch, first, last)
        ]
        epochs = [epoch for epoch in self.came[output] if start <= epoch < end]
        assert read == [row for epoch in sorted(epochs) for row in self.came[output][epoch]]
        if rows_max is not None and len(epochs) > 1:
            assert len(read) <= rows_max

    @rule(output=outputs, less=st.integers(0, 3), whole=st.booleans())
    def forget(self, output: str, less: int, whole: bool) -> None:
        outbox = self.flow.outputs[output]
        forgotten = outbox.forgotten
        end = max(0, outbox.after(forgotten, rows_max=None if whole else 1) - less)
        for extent in outbox.forget(end):
            self.unread[output].drop(extent)
        assert outbox.forgotten == max(forgotten, end)
        for epoch in [epoch for epoch in self.came[output] if epoch < outbox.forgotten]:
            del self.came[output][epoch]

    # What holds

    @invariant()
    def budgets_are_kept(self) -> None:
        assert self.staged.segments.occupied <= BUDGET.staged_bytes
        for name, log in self.unread.items():
            assert log.segments.occupied <= sum(extent.size for extent in log.data) + 2 * (SEGMENT + 12) * len(log.data)
            assert bool(log.data) == bool(log.segments.occupied), name

    @invariant()
    def what_is_deferred_is_of_what_was_in_the_job(self) -> None:
        for outbox in self.flow.outputs.values():
            epochs = {rows.epoch for rows in outbox.deferred}
            assert all(epoch >= outbox.closed for epoch in epochs)

    @invariant()
    def commits_are_answered_when_the_job_keeps_up(self) -> None:
        for intake in self.flow.inputs.values():
            if not intake.waiting and not intake.under_way:
                assert self.flow.answers(intake, intake.decided)

    @property
    def left(self) -> int:
        """How many batches are committed and have not come out."""
        return sum(len(self.committed[name]) + len(self.job[name]) for name in INPUTS)

    def teardown(self) -> None:
        """The disk has room again, readers read, and all ends: what was committed has come out, and nothing is left."""
        self.others = 0
        for attempt in list(self.staging):
            self.drop(self.flow.inputs[self.staging[attempt].input].drop([attempt], self.now_s))
        for input in INPUTS:
            self.close(input)
        while before := self.left:
            for output in OUTPUTS:
                self.read(output, None, None)
                self.forget(output, 0, True)
            self.retry()
            self.release()
            self.come_out(1, "counts")
            assert self.left < before or self.flow.releasable() is not None, "it goes on"
        self.retry()
        self.come_out(1, "counts")
        for output in OUTPUTS:
            self.read(output, None, None)
            self.forget(output, 0, True)
            assert self.flow.outputs[output].empty
            assert (self.unread[output].segments.occupied, self.unread[output].data) == (0, {})
        self.now_s += STALE_S + 1
        for intake in self.flow.inputs.values():
            self.drop(intake.expire(self.now_s - STALE_S))
            assert (intake.attempts, intake._touched_s) == ({}, {})
        assert (self.staged.segments.occupied, self.staged.data) == (0, {})


BrokerMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=60)
test_whatever_happens_batches_and_epochs_are_whole_and_once = BrokerMachine.TestCase
