"""A broker whose disk fills up, and has room again: a real file system, real logs, a job that echoes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.wire.columns import encode_batch
from operators.broker import broker as broker_module
from operators.broker.budget import BrokerLimits
from operators.broker.byte_log import ByteLog, LogFull, MemoryTier
from operators.errors import RequestRefused
from tests.small_disk import fill, small_disk
from tests.unit.operators.broker.test_server import Job, batch_of, serving

SIZE = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", SIZE) as disk:
        yield disk


def rows_of(batch: int) -> list[str]:
    return [f"{batch}-{number:0500}" for number in range(40)]


def stage(job: Job, batch: int) -> None:
    job.client.stage("lines", f"a{batch}", "q", batch, [batch_of(*rows_of(batch))])


def test_outputs_for_which_the_disk_has_no_room_wait_and_nothing_is_taken_in_meanwhile(disk: Path):
    """Also if it tells that it has room and then has none: the first attempt to write is made without a reserve."""
    for reserve in (None, 0):
        with serving(BrokerLimits(str(disk), SIZE // 2, SIZE // 2, reserve, memory_bytes=0)) as job:
            for batch in range(2):
                stage(job, batch)
                job.client.commit("lines", "q", batch, [f"a{batch}"])
            release = job.broker.take()
            assert release is not None
            data = [job.broker.staged.read(extent) for extent in release.extents]
            filler = fill(disk)
            for one in data:
                job.broker.deliver("echo", 0, one, 40)
            job.broker.close_before("echo", 1)
            job.broker.complete_before(1)
            assert job.broker.ready()[0] is False
            assert job.broker.take() is None
            job.broker.retry()
            assert job.client.latest("echo") == (0, 0), "what is not written is not shown"
            assert job.broker.unread == ["echo"]
            filler.unlink()
            job.broker.deliver("echo", 1, encode_batch(batch_of("early")), 1)
            assert job.client.latest("echo") == (0, 0), "it stands behind what waits"
            job.broker.retry()
            assert job.client.latest("echo") == (0, 1)
            assert job.broker.ready() == (True, None)
            job.work()
            assert job.read(0, 2) == [*rows_of(0), "early", *rows_of(1)]
            job.client.forget("echo", 2)


def test_a_disk_that_has_room_but_takes_nothing_holds_the_job_too(disk: Path):
    with serving(BrokerLimits(str(disk), SIZE, SIZE, memory_bytes=0)) as job:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for epoch in range(2):
            job.broker.deliver("echo", epoch, encode_batch(batch_of(f"epoch {epoch}")), 1)
        job.broker.close_before("echo", 1)
        job.broker.inputs["lines"].commit("q", 0, [])
        assert job.broker.take() is None
        held = f"the job's first worker cannot write to its temporary directory {disk}: Read-only file system"
        assert (job.broker.ready(), job.broker.held) == ((False, held), held)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        job.broker.deliver("echo", 1, encode_batch(batch_of("more")), 1)
        job.broker.close_before("echo", 2)
        assert job.client.latest("echo") == (0, 0)
        job.broker.retry()
        assert job.read(0, 2) == ["epoch 0", "epoch 1", "more"], "in the order in which they came out"
        assert job.broker.take() is not None


def test_what_is_staged_on_a_full_disk_is_refused_and_taken_when_there_is_room(
    disk: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(broker_module, "ROOM_S", 0.05)
    with serving(BrokerLimits(str(disk), SIZE, SIZE, memory_bytes=0)) as job:
        filler = fill(disk)
        with pytest.raises(RequestRefused, match=r"the disk of the job's first worker is full \(\d+ bytes are free\)"):
            stage(job, 0)
        assert "is full" in (job.broker.held or "")
        filler.unlink()
        stage(job, 0)
        job.client.commit("lines", "q", 0, ["a0"])
        job.work()
        assert job.read(0, 1) == rows_of(0)


def test_staging_leaves_room_for_outputs(disk: Path, monkeypatch: pytest.MonkeyPatch):
    """Batches are staged until the disk is full; each comes out all the same, once it is read."""
    monkeypatch.setattr(broker_module, "ROOM_S", 0.05)
    with serving(BrokerLimits(str(disk), SIZE, SIZE, SIZE // 8, memory_bytes=0)) as job:
        staged = 0
        while job.broker.staged.occupied < SIZE - 2 * (SIZE // 8) - 60_000:
            stage(job, staged)
            staged += 1
        with pytest.raises(RequestRefused, match="is full"):
            job.client.stage("lines", "more", "q", staged, [batch_of(*rows_of(batch)) for batch in range(3)])
        for batch in range(staged):
            job.broker.inputs["lines"].commit("q", batch, [f"a{batch}"])
        read: list[str] = []
        while len(read) < 40 * staged:
            job.work()
            job.broker.retry()
            start, end = job.client.latest("echo")
            read += job.read(start, end)
            job.client.forget("echo", end)
        assert read == [row for batch in range(staged) for row in rows_of(batch)]
        assert job.kept_bytes == 0


def test_a_directory_that_is_removed_is_like_a_full_disk(tmp_path: Path):
    directory = tmp_path / "buffers"
    directory.mkdir()
    with serving(BrokerLimits(str(directory), SIZE, SIZE, memory_bytes=0)) as job:
        stage(job, 0)
        job.client.commit("lines", "q", 0, ["a0"])
        directory.rmdir()
        assert job.broker.held == f"its temporary directory {directory} cannot be used: No such file or directory"
        job.broker.deliver("echo", 0, b"rows", 1)
        assert job.broker.unread == ["echo"]
        directory.mkdir()
        job.broker.retry()
        assert job.broker.held is None


def test_a_write_that_fails_half_way_leaves_nothing_behind(disk: Path):
    """The disk has less room than it says, or another program was faster."""
    log = ByteLog(disk, SIZE, MemoryTier(0), exceeds=lambda size, occupied: None, overfills=lambda size, free: None)
    kept = log.append(b"kept")
    filler = fill(disk)
    for _ in range(2):
        with pytest.raises(LogFull, match=r"cannot write to its temporary directory .*: No space left on device"):
            log.append(b"x" * 100_000)
        assert log.occupied == 4
    filler.unlink()
    again = log.append(b"again")
    assert [log.read(extent) for extent in (kept, again)] == [b"kept", b"again"]
    for extent in (kept, again):
        log.drop(extent)
    assert log.occupied == 0
