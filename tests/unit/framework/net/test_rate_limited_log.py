"""A flood of warnings becomes a few lines that say how many were left out."""

from __future__ import annotations

import logging

import pytest

from framework.net.rate_limited_log import RateLimitedLog


def test_a_burst_then_one_per_interval(caplog: pytest.LogCaptureFixture) -> None:
    log = RateLimitedLog(logging.getLogger("hailer.net"), burst=2, interval_s=10)
    for second in (100.0, 100.0, 100.0, 101.0, 111.0, 111.5, 400.0, 400.0, 400.0):
        log.warn(f"at {second}", second)
    assert [record.getMessage() for record in caplog.records] == [
        "at 100.0",
        "at 100.0",
        "at 111.0 (2 such lines left out)",
        "at 400.0 (1 such lines left out)",
        "at 400.0",
    ]
