"""A broker over real connections: client and server in one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from framework.wire.columns import decode_batch, encode_batch
from framework.wire.credentials import Credentials, Encryption
from operators.broker import broker as broker_module
from operators.broker import client as client_module
from operators.broker import server as server_module
from operators.broker.broker import Broker
from operators.broker.client import BrokerClient
from operators.broker.intake import Intake
from operators.broker.outbox import Outbox
from operators.broker.server import BrokerServer
from operators.broker.spill import SpillBuffer
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
            batches = [decode_batch(self.broker.spill.fetch(blob)) for blob in release.blobs]
            rows = [row for batch in batches for row in batch.column(0).to_pylist()]
            self.fed.append((release.epoch, rows))
            for blob in release.blobs:
                self.broker.spill.drop(blob)
            for batch in batches:
                self.broker.deliver("echo", release.epoch, encode_batch(batch), len(batch))
            self.broker.close_before("echo", release.epoch + 1)
            self.broker.complete_before(release.epoch + 1)

    def read(self, start: int, end: int) -> list[str]:
        return [
            row
            for pieces in self.client.parts("echo", start, end)
            for batch in self.client.read("echo", pieces)
            for row in batch.column(0).to_pylist()
        ]


@pytest.fixture
def job(request: pytest.FixtureRequest) -> Iterator[Job]:
    ours = getattr(request, "param", OURS)
    broker = Broker(lambda: None, {"lines": Intake("lines")}, {"echo": Outbox("echo")})
    server = BrokerServer(broker, "127.0.0.1", ours)
    server.start()
    try:
        yield Job(broker, server, BrokerClient(server.address, ours))
    finally:
        server.close()


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
    assert job.client.commit("lines", "q", 0, ["a"]) == (0, True)
    job.work()
    assert job.fed == [(0, ["to be", "or not", "to be"])]
    assert job.client.latest("echo") == (0, 1)
    assert job.read(0, 1) == job.read(0, 1) == ["to be", "or not", "to be"]
    job.client.forget("echo", 1)
    assert job.client.latest("echo") == (1, 1)
    with pytest.raises(RequestRefused, match="was read, committed and forgotten"):
        job.read(0, 1)
    assert job.broker.spill.memory_bytes == 0


@plain_and_encrypted
def test_what_exceeds_memory_goes_through_files(job: Job):
    job.broker.spill = SpillBuffer(memory_bytes_max=0, segment_bytes=1_000)
    for batch in range(3):
        rows = [f"{batch}-{number}" for number in range(200)]
        job.client.stage("lines", f"a{batch}", "q", batch, [batch_of(*rows)])
        job.client.commit("lines", "q", batch, [f"a{batch}"])
        assert job.broker.spill.disk_bytes > 1_000
        job.work()
        assert job.read(batch, batch + 1) == rows
    job.client.forget("echo", 3)
    assert (job.broker.spill.memory_bytes, job.broker.spill.disk_bytes) == (0, 0)


def test_a_batch_that_comes_again_is_not_even_sent(job: Job):
    job.client.stage("lines", "a", "q", 0, [batch_of("once")])
    job.client.commit("lines", "q", 0, ["a"])
    job.work()
    assert job.client.stage("lines", "b", "q", 0, [batch_of("once")]) is None
    assert job.client.commit("lines", "q", 0, ["b"]) == (0, False)
    job.work()
    assert job.fed == [(0, ["once"])]


def test_an_attempt_whose_client_dies_is_dropped(job: Job):
    def dies() -> Iterator[pa.RecordBatch]:
        yield batch_of("half")
        raise RuntimeError("the task dies")

    with pytest.raises(RuntimeError, match="the task dies"):
        job.client.stage("lines", "a", "q", 0, dies())
    wait_until(lambda: not job.broker.inputs["lines"].attempts)
    assert job.broker.spill.memory_bytes == 0
    with pytest.raises(RequestRefused, match="has not received"):
        job.client.commit("lines", "q", 0, ["a"])


def test_a_job_that_is_behind_holds_commits_back(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(broker_module, "HEARTBEAT_S", 0.05)
    for batch in range(2):
        assert job.client.commit("lines", "q", batch, []) == (batch, True)
    answers: list[tuple[int, bool]] = []
    thread = threading.Thread(target=lambda: answers.append(job.client.commit("lines", "q", 2, [])))
    thread.start()
    wait_until(lambda: job.broker.inputs["lines"].epoch == 3)
    thread.join(0.3)
    assert answers == [], "two epochs are under way already"
    job.work()
    thread.join(WAIT_S)
    assert answers == [(2, True)]


def test_an_input_that_is_not_fed_does_not_hold_the_commits_of_another_back(job: Job):
    """What was fed waits in the job; to feed the other is up to whoever feeds the first, so it must not wait."""
    job.broker.inputs["table"] = Intake("table")  # type: ignore[index]
    assert [job.client.commit("lines", "q", batch, [])[0] for batch in range(5)] == [0, 1, 2, 3, 4]


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
    wait_until(lambda: job.broker.inputs["lines"].epoch == 3)
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
    with pytest.raises(RequestRefused, match=r"output 'echo' has stood at epoch 0 for 0.1 s; inputs are 'lines' at 1;"):
        job.client.latest("echo", settle=True)


def test_large_batches_are_cut_and_too_large_rows_are_refused(job: Job, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(client_module, "DATA_BYTES_MAX", 2_000)
    rows = [f"{number:0100}" for number in range(100)]
    assert job.client.stage("lines", "a", "q", 0, [batch_of(*rows)]) == 100
    assert len(job.broker.inputs["lines"].attempts["a"].blobs) > 5
    job.client.commit("lines", "q", 0, ["a"])
    job.work()
    assert job.fed == [(0, rows)]
    with pytest.raises(RequestRefused, match=r"a row of [\d,]+ bytes is more than the 2,000"):
        job.client.stage("lines", "b", "q", 1, [batch_of("x" * 3_000)])


def test_what_finds_no_room_is_refused_and_leaves_nothing_behind(job: Job):
    job.broker.spill = SpillBuffer(memory_bytes_max=0, disk_bytes_max=1_000)
    with pytest.raises(RequestRefused, match="let a stream read its outputs"):
        job.client.stage("lines", "a", "q", 0, [batch_of("x" * 600), batch_of("y" * 600)])
    wait_until(lambda: not job.broker.inputs["lines"].attempts)
    assert job.broker.spill.disk_bytes == 0


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
        wait_until(lambda: len(job.broker.inputs["lines"].attempts["a"].blobs) == 1)
        job.client.commit("lines", "q", 0, ["b"])
        yield batch_of("two")

    with pytest.raises(RequestRefused, match="attempt 'a' is not staged any more: its batch was committed without it"):
        job.client.stage("lines", "a", "q", 0, overtaken())
    job.work()
    job.client.forget("echo", 1)
    assert (job.fed, job.broker.spill.memory_bytes) == ([(0, ["one", "two"])], 0)


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
