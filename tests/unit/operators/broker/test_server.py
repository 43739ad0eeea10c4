"""A broker over real connections: client and server in one process."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest

from framework.wire.columns import decode_batch, encode_batch
from framework.wire.credentials import Credentials, Encryption
from operators.broker import broker as broker_module
from operators.broker import client as client_module
from operators.broker import server as server_module
from operators.broker.broker import Broker
from operators.broker.budget import BrokerLimits
from operators.broker.client import BrokerClient
from operators.broker.intake import Intake
from operators.broker.outbox import Outbox
from operators.broker.server import BrokerServer
from operators.errors import JobLost, RequestRefused

OURS = Credentials(b"s" * 32, "5e1f")
ENCRYPTED = replace(OURS, encryption=Encryption.ALWAYS)
plain_and_encrypted = pytest.mark.parametrize("job", [OURS, ENCRYPTED], indirect=True, ids=["plain", "encrypted"])
WAIT_S = 10.0


@dataclass
class Job:
    """A job that passes on what it is fed, when the test lets it."""

    broker: Broker
    server: BrokerServer
    client: BrokerClient
    fed: list[tuple[int, list[str]]] = field(default_factory=list)

    def work(self) -> None:
        while (release := self.broker.take()) is not None:
            batches = [decode_batch(self.broker.staged.read(extent)) for extent in release.extents]
            rows = [row for batch in batches for row in batch.column(0).to_pylist()]
            self.fed.append((release.epoch, rows))
            for extent in release.extents:
                self.broker.drop_fed(extent)
            for batch in batches:
                self.broker.deliver("echo", release.epoch, encode_batch(batch), len(batch))
            self.broker.close_before("echo", release.epoch + 1)
            self.broker.complete_before(release.epoch + 1)

    @property
    def kept_bytes(self) -> int:
        """What lies in its logs."""
        return self.broker.staged.occupied + self.broker.unread_bytes

    def read(self, start: int, end: int) -> list[str]:
        return [
            row
            for pieces in self.client.parts("echo", start, end)
            for batch in self.client.read("echo", pieces)
            for row in batch.column(0).to_pylist()
        ]


@contextmanager
def serving(
    limits: BrokerLimits | None = None, schema: pa.Schema | None = None, credentials: Credentials = OURS
) -> Iterator[Job]:
    broker = Broker(lambda: None, {"lines": Intake("lines")}, {"echo": Outbox("echo")}, {"lines": schema}, limits)
    server = BrokerServer(broker, "127.0.0.1", credentials)
    server.start()
    try:
        yield Job(broker, server, BrokerClient(server.address, credentials))
    finally:
        server.close()


@pytest.fixture
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    with serving(credentials=getattr(request, "param", OURS)) as job:
        yield job


def batch_of(*rows: str) -> pa.RecordBatch:
    return pa.record_batch({"line": list(rows)})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to pass"
        time.sleep(0.005)


@plain_and_encrypted
def test_rows_go_in_on_commit_and_come_out_again_and_again_until_they_are_forgotten(job: Job):
    assert job.client.stage("lines", "a", "q", 0, [batch_of("to be"), batch_of("or not", "to be")]) == 3
    job.work()
    assert job.fed == []
    assert job.client.commit("lines", "q", 0, ["a"])
    job.work()
    assert job.fed == [(0, ["to be", "or not", "to be"])]
    assert job.client.latest("echo") == (0, 1)
    assert job.read(0, 1) == job.read(0, 1) == ["to be", "or not", "to be"]
    job.client.forget("echo", 1)
    assert job.client.latest("echo") == (1, 1)
    with pytest.raises(RequestRefused, match="was read, committed and forgotten"):
        job.read(0, 1)
    assert job.kept_bytes == 0


def test_a_batch_that_comes_again_is_not_even_sent(job: Job):
    job.client.stage("lines", "a", "q", 0, [batch_of("once")])
    job.client.commit("lines", "q", 0, ["a"])
    job.work()
    assert job.client.stage("lines", "b", "q", 0, [batch_of("once")]) is None
    assert job.client.commit("lines", "q", 0, ["b"]) is False
    job.work()
    assert job.fed == [(0, ["once"])]


def test_an_attempt_whose_client_dies_is_dropped(job: Job):
    def dies() -> Iterator[pa.RecordBatch]:
        yield batch_of("half")
        raise RuntimeError("the task dies")

    with pytest.raises(RuntimeError, match="the task dies"):
        job.client.stage("lines", "a", "q", 0, dies())
    wait_until(lambda: not job.broker.inputs["lines"].attempts)
    assert job.kept_bytes == 0
    with pytest.raises(RequestRefused, match="has not received"):
        job.client.commit("lines", "q", 0, ["a"])


def test_a_job_that_is_behind_holds_commits_back(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.05)
    for batch in range(2):
        assert job.client.commit("lines", "q", batch, [])
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(job.client.commit("lines", "q", 2, [])))
    thread.start()
    wait_until(lambda: job.broker.inputs["lines"].decided == 3)
    thread.join(0.3)
    assert answers == [], "two batches are under way already"
    job.work()
    thread.join(WAIT_S)
    assert answers == [True]


def test_an_input_that_is_not_fed_does_not_hold_the_commits_of_another_back(job: Job):
    """What was fed waits in the job; to feed the other is up to whoever feeds the first, so it must not wait."""
    job.broker.inputs["table"] = Intake("table")  # type: ignore[index]
    assert [job.client.commit("lines", "q", batch, []) for batch in range(5)] == [True] * 5


def test_whoever_waits_is_told_when_the_job_ends(job: Job):
    raised: list[BaseException] = []

    def commit() -> None:
        with suppress(JobLost):
            for batch in range(3):
                try:
                    job.client.commit("lines", "q", batch, [])
                except RequestRefused as error:
                    raised.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    wait_until(lambda: job.broker.inputs["lines"].decided == 3)
    job.broker.fail("the job has ended")
    thread.join(WAIT_S)
    assert [str(error) for error in raised] == ["the job has ended"]


def test_all_that_was_committed_can_be_waited_for(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.05)
    job.client.stage("lines", "a", "q", 0, [batch_of("slow")])
    job.client.commit("lines", "q", 0, ["a"])
    worker = threading.Timer(0.2, job.work)
    worker.start()
    assert job.client.latest("echo", settle=True) == (0, 1)
    worker.join()


def test_what_comes_out_once_inputs_have_ended_is_waited_for_too(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.05)
    job.client.stage("lines", "a", "q", 0, [batch_of("first")])
    job.client.commit("lines", "q", 0, ["a"])
    job.client.finish()
    job.work()
    told: list[tuple[int, int]] = []
    reader = threading.Thread(target=lambda: told.append(job.client.latest("echo", settle=True)))
    reader.start()
    reader.join(0.2)
    assert told == [], "a timer may still go off"
    job.broker.deliver("echo", 7, encode_batch(batch_of("later")), 1)
    job.broker.close_before("echo", None)
    reader.join(WAIT_S)
    assert told == [(0, 8)]
    assert job.read(0, 8) == ["first", "later"]


def test_an_output_that_an_idle_input_holds_back_is_waited_for_with_a_bound(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(broker_module, "SETTLE_S", 0.1)
    job.client.commit("lines", "q", 0, [])
    assert job.broker.take() is not None
    with pytest.raises(RequestRefused, match=r"output 'echo' has stood at epoch 0 for 0.1 s; inputs are 'lines' at 1;"):
        job.client.latest("echo", settle=True)


def test_large_batches_are_cut_and_too_large_rows_are_refused(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_module, "DATA_BYTES_MAX", 2_000)
    rows = [f"{number:0100}" for number in range(100)]
    assert job.client.stage("lines", "a", "q", 0, [batch_of(*rows)]) == 100
    assert len(job.broker.inputs["lines"].attempts["a"].extents) > 5
    job.client.commit("lines", "q", 0, ["a"])
    job.work()
    assert job.fed == [(0, rows)]
    with pytest.raises(RequestRefused, match=r"a row of [\d,]+ bytes is more than the 2,000"):
        job.client.stage("lines", "b", "q", 1, [batch_of("x" * 3_000)])


def test_what_finds_no_room_is_refused_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "ROOM_S", 0.05)
    with serving(BrokerLimits(staged_bytes=2_000)) as job:
        with pytest.raises(RequestRefused, match=r"bytes are staged and wait .* and the job stages 2,000 at most; try"):
            job.client.stage("lines", "a", "q", 0, [batch_of("x" * 1_000), batch_of("y" * 1_000), batch_of("z")])
        assert (job.broker.inputs["lines"].attempts, job.broker.staged.occupied) == ({}, 0)
        job.client.stage("lines", "b", "q", 0, [batch_of("x" * 1_000)])
        job.client.commit("lines", "q", 0, ["b"])
        job.work()
        assert job.read(0, 1) == ["x" * 1_000]


def test_what_finds_no_room_waits_until_other_batches_are_taken_in():
    with serving(BrokerLimits(staged_bytes=2_000)) as job:
        job.client.stage("lines", "a", "q", 0, [batch_of("x" * 1_000)])
        job.client.commit("lines", "q", 0, ["a"])
        staging = threading.Thread(target=job.client.stage, args=("lines", "b", "q", 1, [batch_of("y" * 1_000)]))
        staging.start()
        wait_until(lambda: "b" in job.broker.inputs["lines"].attempts)
        job.work()
        staging.join(WAIT_S)
        assert job.client.commit("lines", "q", 1, ["b"])


def test_what_was_staged_too_long_ago_makes_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "ROOM_S", 0.5)
    with serving(BrokerLimits(staged_bytes=2_000, attempt_s=0.01)) as job:
        job.client.stage("lines", "a", "dead", 0, [batch_of("x" * 1_000)])
        job.client.stage("lines", "b", "q", 0, [batch_of("y" * 1_000)])
        with pytest.raises(
            RequestRefused, match=r"was not committed for too long \(--attempt-timeout\); start the query"
        ):
            job.client.commit("lines", "dead", 0, ["a"])


@pytest.mark.parametrize(
    ("data", "rows", "said"),
    [
        (b"no Arrow at all", 1, "input 'lines' was sent not an Arrow batch"),
        (
            encode_batch(pa.record_batch({"n": [1]})),
            1,
            r"input 'lines' takes \(line: string\), and was sent \(n: int64\)",
        ),
        (encode_batch(pa.record_batch({"line": ["one"]})), 2, "input 'lines' was sent a batch of 1 rows that says"),
    ],
)
def test_what_the_job_could_not_be_fed_with_is_refused_when_it_is_staged(data: bytes, rows: int, said: str):
    with serving(schema=pa.schema({"line": pa.string()})) as job:
        with job.client._connect() as client:
            client.send("stage", "lines", "a", "q", 0)
            assert client.receive() == ["go"]
            client.send("batch", data, rows)
            client.send("complete", rows)
            answer = client.receive()
        assert answer is not None
        assert answer[0] == "refused"
        assert re.match(said, answer[1]), answer
        assert (job.broker.inputs["lines"].attempts, job.kept_bytes) == ({}, 0)


def test_what_fits_an_inputs_schema_is_cast_to_it_when_it_is_staged():
    with serving(schema=pa.schema({"line": pa.large_string()})) as job:
        job.client.stage("lines", "a", "q", 0, [batch_of("tea")])
        job.client.commit("lines", "q", 0, ["a"])
        release = job.broker.take()
        assert release is not None
        [batch] = [decode_batch(job.broker.staged.read(extent)) for extent in release.extents]
        assert batch.schema == pa.schema({"line": pa.large_string()})


def test_a_commit_is_held_back_while_too_much_is_unread(monkeypatch: pytest.MonkeyPatch):
    """What is in the job comes out all the same, and no other input is held back for good."""
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.02)
    with serving(BrokerLimits(unread_bytes=2_000)) as job:
        for batch in range(2):
            job.client.stage("lines", f"a{batch}", "q", batch, [batch_of(f"{batch}" * 1_000)])
        job.client.commit("lines", "q", 0, ["a0"])
        job.work()
        job.broker.deliver("echo", 1, encode_batch(batch_of("more" * 1_000)), 1)
        job.broker.close_before("echo", 2)
        job.broker.pass_to(2)
        answers: list[bool] = []
        committing = threading.Thread(target=lambda: answers.append(job.client.commit("lines", "q", 1, ["a1"])))
        committing.start()
        wait_until(lambda: job.broker.inputs["lines"].decided == 2)
        assert (job.broker.take(), answers) == (None, [])
        ready, held = job.broker.ready()
        assert (ready, job.broker.held) == (False, held)
        assert re.fullmatch(
            r"([\d,]+) bytes of its outputs are unread, \1 of them of 'echo', and the limit is 2,000", held or ""
        )
        assert job.client.latest("echo") == (0, 2)
        job.client.forget("echo", 2)
        committing.join(WAIT_S)
        assert (job.broker.ready(), answers) == ((True, None), [True])
        job.work()
        assert job.fed[1:] == [(2, ["1" * 1_000])], "epochs have passed meanwhile"


def test_who_waits_for_what_is_held_back_is_told_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(broker_module, "SETTLE_S", 0.1)
    with serving(BrokerLimits(unread_bytes=1)) as job:
        job.broker.deliver("echo", 0, encode_batch(batch_of("unread")), 1)
        job.broker.inputs["lines"].commit("q", 0, [])
        with pytest.raises(
            RequestRefused, match=r"takes nothing in, since .* are unread, .*; have a stream read its out"
        ):
            job.client.latest("echo", settle=True)


def test_an_answer_that_is_lost_is_asked_for_again_and_the_batch_counts_once(job: Job, monkeypatch: pytest.MonkeyPatch):
    """The connection breaks between the commit and its answer."""
    job.client.stage("lines", "a", "q", 0, [batch_of("once")])
    usual, commits = job.broker.commit, list[bool]()

    def broken(*args: Any, **options: Any) -> bool:
        commits.append(usual(*args, **options))
        if len(commits) == 1:
            for client in list(job.server._clients):
                client.shutdown()
        return commits[-1]

    monkeypatch.setattr(job.broker, "commit", broken)
    assert job.client.commit("lines", "q", 0, ["a"]) is False, "it was known"
    job.work()
    assert (commits, job.fed) == ([True, False], [(0, ["once"])])


@plain_and_encrypted
def test_wrong_names_get_the_closest_and_wrong_secrets_nothing(job: Job):
    with pytest.raises(RequestRefused, match="this job has no input 'line'; it has 'lines'; did you mean 'lines'"):
        job.client.commit("line", "q", 0, [])
    with pytest.raises(RequestRefused, match="this job has no output 'lines'; it has 'echo'"):
        job.client.latest("lines")
    with pytest.raises(JobLost, match="the job cannot be reached"):
        replace(job.client, credentials=replace(job.client.credentials, secret=b"t" * 32)).latest("echo")


def test_a_client_that_is_shown_does_not_show_its_secret(job: Job):
    assert repr(job.client) == (
        f"BrokerClient(address={job.client.address!r}, credentials=Credentials(run='5e1f', generation=0, "
        f"encryption={job.client.credentials.encryption!r}))"
    )


def test_nonsense_is_hung_up_on_and_others_are_still_served(job: Job):
    with pytest.raises(JobLost, match="the job hung up"):
        job.client._ask("dance")
    with pytest.raises(JobLost, match="the job hung up"):
        job.client._ask("commit", "lines")
    assert job.client.latest("echo") == (0, 0)


def test_a_client_for_which_there_is_no_thread_is_hung_up_on_and_the_next_one_is_served(job: Job):
    usual = threading.stack_size(1 << 46)  # more than there is: no thread can be started
    try:
        with pytest.raises(JobLost):
            job.client.latest("echo")
    finally:
        threading.stack_size(usual)
    assert job.client.latest("echo") == (0, 0)
    wait_until(lambda: not job.server._clients)


def test_a_client_without_a_request_is_hung_up_on_but_one_that_stages_slowly_is_not(
    job: Job, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_module, "REQUEST_S", 0.05)

    def slowly() -> Iterator[pa.RecordBatch]:
        yield batch_of("one")
        with job.client._connect() as silent:
            assert silent.receive() is None, "hung up on, later than a request that were as slow"
        yield batch_of("two")

    assert job.client.stage("lines", "a", "q", 0, slowly()) == 2


def test_a_part_of_an_attempt_that_a_commit_has_dropped_is_not_kept(job: Job):
    """A speculative task still stages when the other one's attempt is committed."""

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield batch_of("one")
        assert job.client.stage("lines", "b", "q", 0, [batch_of("one"), batch_of("two")]) == 2
        wait_until(lambda: len(job.broker.inputs["lines"].attempts["a"].extents) == 1)
        job.client.commit("lines", "q", 0, ["b"])
        yield batch_of("two")

    with pytest.raises(RequestRefused, match="attempt 'a' is no longer staged: its batch was committed without it"):
        job.client.stage("lines", "a", "q", 0, overtaken())
    job.work()
    job.client.forget("echo", 1)
    assert (job.fed, job.kept_bytes) == ([(0, ["one", "two"])], 0)


def test_an_input_that_is_finished_tells_the_job(job: Job):
    job.client.finish()
    release = job.broker.take()
    assert release is not None
    assert (release.input, release.last) == ("lines", True)
    with pytest.raises(RequestRefused, match="input 'lines' has ended"):
        job.client.commit("lines", "q", 0, [])


def test_who_has_read_everything_is_let_wait_for_more_but_not_for_long(job: Job, monkeypatch: pytest.MonkeyPatch):
    assert job.client.latest("echo", 0, within_s=0.05) == (0, 0)
    monkeypatch.setattr(broker_module, "WITHIN_S_MAX", WAIT_S)
    told: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: told.append(job.client.latest("echo", 0, within_s=WAIT_S)))
    thread.start()
    job.client.stage("lines", "a", "q", 0, [batch_of("tea")])
    job.client.commit("lines", "q", 0, ["a"])
    job.work()
    thread.join(WAIT_S)
    assert told == [(0, 1)]


def test_who_waits_for_more_is_told_when_the_job_ends(job: Job):
    job.broker.fail("the job has ended")
    began_s = time.monotonic()
    assert job.client.latest("echo", 0, within_s=WAIT_S) == (0, 0)
    assert time.monotonic() < began_s + broker_module.WITHIN_S_MAX
