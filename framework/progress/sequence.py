"""Atomic batches of progress, numbered per sender.

Each worker tells every worker, itself included, what its operators did, in batches that are applied whole and in the
order of their sender. A batch that repeats or skips a number is a broken peer, not something to be repaired.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.errors import ProtocolError
from framework.membership.members import WorkerId


@dataclass(slots=True)
class Sequences:
    """The next batch to send, and the next one expected from each sender."""

    next_out: int = 0
    next_in: dict[WorkerId, int] = field(default_factory=dict)

    def stamp(self) -> int:
        """The number of the batch that is about to be sent."""
        sequence = self.next_out
        self.next_out += 1
        return sequence

    def accept(self, sender: WorkerId, sequence: int) -> None:
        """Expect `sequence` from `sender`, and then the one after it."""
        expected = self.next_in.get(sender, 0)
        if sequence != expected:
            raise ProtocolError(
                f"worker {sender} sent progress batch {sequence} where {expected} was due: a batch was lost or repeated"
            )
        self.next_in[sender] = expected + 1
