"""For how long the outputs of operators stood still. Pure: the driver says how far they are, and what time it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class StallMeter:
    """The longest that the outputs of operators stood still while something was fed that had not come out."""

    seen_s: float
    longest_s: float = 0.0
    _moved_s: float = field(init=False)
    """When outputs last moved."""
    _outputs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._moved_s = self.seen_s

    def note(self, now_s: float, fed_at: int, outputs: Mapping[str, int]) -> None:
        """Take the least epochs that may still come out, and which epoch is being fed."""
        caught_up = all(output >= fed_at for output in outputs.values())
        if outputs != self._outputs or caught_up:
            self._outputs, self._moved_s = dict(outputs), now_s
        self.longest_s = max(self.longest_s, now_s - self._moved_s)
        self.seen_s = now_s
