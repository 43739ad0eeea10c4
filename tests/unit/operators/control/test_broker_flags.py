"""The flags of what a job that is served may keep on disk."""

from __future__ import annotations

import argparse

import pytest

from framework.errors import ConfigError
from operators.broker.budget import BrokerLimits
from operators.control.broker_flags import add_broker_flags, limits_from_flags


def limits(*arguments: str) -> BrokerLimits:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true")
    add_broker_flags(parser)
    return limits_from_flags(parser.parse_args(arguments))


def test_what_is_not_said_follows_from_the_disk():
    assert limits() == limits("--serve") == BrokerLimits()


def test_sizes_have_units():
    given = limits(
        "--serve", "--buffer-dir=/data", "--staged-bytes=500M", "--unread-bytes", "2 GiB", "--attempt-timeout=60"
    )
    assert given == BrokerLimits("/data", 500 << 20, 2 << 30, attempt_s=60.0)
    assert limits("--serve", "--staged-bytes=1000", "--unread-bytes=3t") == BrokerLimits(None, 1000, 3 << 40)
    assert limits("--serve", "--buffer-memory=0") == BrokerLimits(memory_bytes=0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--unread-bytes=2G"], "--unread-bytes goes with --serve"),
        (["--serve", "--staged-bytes=much"], "--staged-bytes 'much': write a size such as 500M or 20G"),
        (["--serve", "--unread-bytes=0G"], "unread_bytes is 0; it has to be more than 0"),
        (["--serve", "--attempt-timeout=0"], "attempt_s is 0.0; it has to be more than 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], said: str):
    with pytest.raises(ConfigError, match=said):
        limits(*arguments)
