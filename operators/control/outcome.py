"""What a change of a running job came to, for programs; `operators.control.render` shows the same to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operators.control.errors import ChangeFailed


@dataclass(frozen=True, slots=True)
class Outcome:
    """Bins that have moved, and what was felt of it."""

    bins_moved: int
    state_bytes: int
    duration_s: float
    stall_s_max: float
    """The longest that outputs stood still meanwhile."""

    @staticmethod
    def of(what: str, state: Mapping[str, Any]) -> Outcome:
        """That of a plan or a scaling that has ended, by its state; `ChangeFailed` if it did not come about."""
        if state["failure"] is not None:
            raise ChangeFailed(f"the {what} failed: {state['failure']}")
        return Outcome(state["bins_moved"], state["state_bytes"], state["duration_s"], state["stall_s_max"])


NOTHING = Outcome(0, 0, 0.0, 0.0)
"""All was as it should be."""
