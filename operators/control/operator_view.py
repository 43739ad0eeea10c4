"""How far operators on bins are, seen from the worker that sends a job's commands; and for how long they stalled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.membership.members import WorkerId
from routing.migration.plan import Step


@dataclass(frozen=True, slots=True)
class BinnedOperatorView:
    """One operator on bins, as the worker that sends commands sees it."""

    ahead: Sequence[WorkerId]
    """The owners once all that was announced is installed."""
    installed: Sequence[WorkerId]
    since: int
    """From when on these hold."""
    output: int | None
    """The least epoch that may still come out; None if nothing can."""

    @property
    def settled(self) -> bool:
        """Whether all moves are installed and the bins have arrived."""
        return list(self.ahead) == list(self.installed) and self._bins_have_arrived

    def takes(self, step: Step) -> bool:
        """Whether the step is announced."""
        return _shows(self.ahead, step)

    def has_completed(self, step: Step) -> bool:
        """Whether the step is installed and its bins have arrived."""
        return _shows(self.installed, step) and self._bins_have_arrived

    @property
    def _bins_have_arrived(self) -> bool:
        return self.output is None or self.output > self.since


def _shows(table: Sequence[WorkerId], step: Step) -> bool:
    return all(
        transfer.bin_id < len(table) and table[transfer.bin_id] == transfer.target for transfer in step.transfers
    )


@dataclass(slots=True)
class StallMeter:
    """The longest that the outputs of operators stood still while something was fed that had not come out."""

    seen_s: float
    longest_s: float = 0.0
    _moved_s: float = field(init=False)
    """When outputs last moved."""
    _outputs: dict[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._moved_s = self.seen_s

    def note(self, now_s: float, fed_at: int | None, views: Mapping[str, BinnedOperatorView]) -> None:
        """Take how far the outputs are now, by path, and which epoch is being fed (None: none any more)."""
        outputs = {path: view.output for path, view in views.items()}
        caught_up = fed_at is not None and all(output is None or output >= fed_at for output in outputs.values())
        if outputs != self._outputs or caught_up:
            self._outputs, self._moved_s = outputs, now_s
        self.longest_s = max(self.longest_s, now_s - self._moved_s)
        self.seen_s = now_s
