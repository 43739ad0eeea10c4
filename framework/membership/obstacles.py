"""What keeps a worker from leaving: for good, or until it is out of the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.errors import GraphError

if TYPE_CHECKING:
    from framework.membership.driver import Membership
    from framework.worker.dataflows import Dataflows


class Obstacles:
    """The reasons for which one worker cannot leave, or not yet."""

    def __init__(self, membership: Membership, dataflows: Dataflows) -> None:
        self.objections: list[Callable[[], str | None]] = []
        """Asked before this worker leaves: what is in the way, if anything. Bins that it owns, say."""
        self._membership = membership
        self._dataflows = dataflows

    @property
    def fixed_operators(self) -> tuple[str, ...]:
        """The operators that keep their keys on the workers that the job began with."""
        return tuple(sorted(self._dataflows.fixed_operators))

    def check(self) -> None:
        """Raise if this worker can never leave."""
        membership, worker = self._membership, self._membership.worker
        membership.check_built()
        if len(membership.members) == 1:
            raise GraphError(f"worker {worker} cannot leave: it is the last one; stop the job instead")
        if worker in membership.founders and self.fixed_operators:
            names = ", ".join(map(repr, self.fixed_operators))
            raise GraphError(
                f"worker {worker} cannot leave: {names} keep their keys on the workers that the job began "
                f"with; put them on bins, or keep this worker"
            )

    @property
    def passable(self) -> bool:
        """Whether this worker can leave, once nothing is in the way."""
        try:
            self.check()
        except GraphError:
            return False
        return True

    def objection(self) -> str | None:
        """What is in the way just now, if anything."""
        return next(filter(None, (objection() for objection in self.objections)), None)
