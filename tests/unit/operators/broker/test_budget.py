"""What may be kept on a disk of some size."""

from __future__ import annotations

from operators.broker.budget import RESERVE_BYTES, BrokerLimits, DiskBudget

GIB = 1 << 30


def test_what_is_not_said_is_within_what_the_disk_has():
    none = BrokerLimits(memory_bytes=0)
    assert DiskBudget.of(none, free=42 * GIB, disk=100 * GIB) == DiskBudget(10 * GIB, 20 * GIB, RESERVE_BYTES)
    assert DiskBudget.of(none, free=9 << 20, disk=10 << 20) == DiskBudget(2 << 20, 4 << 20, 1 << 19)
    assert DiskBudget.of(BrokerLimits(), free=0, disk=GIB) == DiskBudget(128 << 20, 128 << 20, GIB // 20)
    assert DiskBudget.of(BrokerLimits(staged_bytes=5, unread_bytes=7, reserve_bytes=0), free=0, disk=GIB) == DiskBudget(
        5, 7, 0
    )


def test_staging_ends_before_the_disk_has_no_room_for_outputs():
    budget = DiskBudget(staged_bytes=100, unread_bytes=100, reserve_bytes=10)
    assert budget.refuses_to_stage(60, staged=40) is None
    assert "60 bytes are staged and wait for their commits" in str(budget.refuses_to_stage(41, staged=60))
    full = "the disk of the job's first worker is full ({} bytes are free)"
    assert budget.refuses_to_write(60, free=80, staging=True) is None
    assert budget.refuses_to_write(60, free=79, staging=True) == full.format(79)
    assert budget.refuses_to_write(60, free=70, staging=False) is None
    assert budget.refuses_to_write(60, free=69, staging=False) == full.format(69)


def test_a_job_is_held_when_too_much_is_unread_or_the_disk_is_full():
    budget = DiskBudget(staged_bytes=100, unread_bytes=100, reserve_bytes=10)
    assert budget.holds({}, free=11) is None
    assert budget.holds({"counts": 90, "rejected": 9}, free=11) is None
    assert budget.holds({"counts": 10, "rejected": 90}, free=None) == (
        "100 bytes of its outputs are unread, 90 of them of 'rejected', and the limit is 100"
    )
    assert budget.holds({}, free=None) is None
    assert budget.holds({}, free=10) == "the disk of the job's first worker is full (10 bytes are free)"
