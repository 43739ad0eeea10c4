"""Where the broker of a running job is, and what goes in and out there: what a job tells those who look for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """What it takes to feed and read a job."""

    run: str
    """Tells one run of a job from the next."""
    host: str
    port: int
    secret: str
    """In hexadecimal digits."""
    encryption: str
    """Which connections are encrypted (`framework.wire.credentials.Encryption`)."""
    inputs: dict[str, str | None]
    """The Arrow schema of each, in base64; None if it takes any."""
    outputs: dict[str, str]
