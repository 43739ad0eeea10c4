"""Rate-limited warnings: a flood of connections must not become a flood of lines."""

from __future__ import annotations

import logging


class RateLimitedLog:
    """A token bucket: passes a burst of lines, then one per interval, and says how many it left out."""

    __slots__ = ("_burst", "_interval_s", "_left_out", "_log", "_refilled_s", "_tokens")

    def __init__(self, log: logging.Logger, *, burst: int = 10, interval_s: float = 1.0) -> None:
        self._log = log
        self._burst = burst
        self._interval_s = interval_s
        self._tokens = float(burst)
        self._refilled_s = 0.0
        self._left_out = 0

    def warn(self, line: str, now_s: float) -> None:
        """Log `line`, if there is a token for it."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._refilled_s) / self._interval_s)
        self._refilled_s = now_s
        if self._tokens < 1:
            self._left_out += 1
            return
        self._tokens -= 1
        if self._left_out:
            line = f"{line} ({self._left_out} such lines left out)"
            self._left_out = 0
        self._log.warning("%s", line)
