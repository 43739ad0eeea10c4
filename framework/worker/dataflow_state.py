"""What a join or a leave takes of a worker's dataflows: capabilities lent, progress handed over, and nothing left."""

from __future__ import annotations

from collections.abc import Sequence

from framework.dataflow.operator import BuiltOperator
from framework.errors import GraphError
from framework.membership.dataflow_state import LentCapability
from framework.membership.members import WorkerId
from framework.membership.messages import ScopeState, SequenceNumbers
from framework.progress.order import linear_key
from framework.progress.subgraph import ProgressState
from framework.wire.messages import Data, Progress
from framework.worker.dataflows import Dataflows


class WorkerDataflowState:
    """Implements `DataflowState`, where the methods are described."""

    def __init__(self, worker: WorkerId, dataflows: Dataflows) -> None:
        self._worker = worker
        self._dataflows = dataflows

    def dataflows_built(self) -> int:
        return self._dataflows.built

    def channels_built(self) -> int:
        return self._dataflows.switchboard.reserved

    def fingerprints(self) -> tuple[tuple[int, bytes], ...]:
        return tuple(self._dataflows.fingerprints().items())

    def next_out(self) -> SequenceNumbers:
        return tuple(self._dataflows.batches_sent().items())

    def lend(self) -> tuple[LentCapability, ...]:
        lent: list[LentCapability] = []
        for scope in self._dataflows.scopes().values():
            for child in scope.children():
                if isinstance(child.operator, BuiltOperator) and child.operator.lends:
                    for port, output in enumerate(child.operator.outputs):
                        if output.held:
                            time = min(output.held, key=linear_key)
                            scope.lend(child.sources[port], time, 1)
                            lent.append((child.path, port, time))
        return tuple(lent)

    def take_back(self, lent: Sequence[LentCapability]) -> None:
        children = {
            child.path: (scope, child) for scope in self._dataflows.scopes().values() for child in scope.children()
        }
        for path, port, time in lent:
            if path in children:
                scope, child = children[path]
                scope.lend(child.sources[port], time, -1)

    def scope_states(self) -> list[ScopeState]:
        return [_scope_state(channel, scope.progress_state()) for channel, scope in self._dataflows.scopes().items()]

    def unheard(self) -> list[tuple[WorkerId, Progress]]:
        inboxes = [
            (sender, Progress(channel, sequence, changes))
            for channel, scope in self._dataflows.scopes().items()
            for sender, sequence, changes in scope.ledger().inbox
        ]
        return inboxes + [(sender, batch) for sender, batch in self._dataflows.early() if isinstance(batch, Progress)]

    def count(self, first: int, sign: int) -> None:
        for number, scopes in self._dataflows.scopes_by_dataflow().items():
            if number >= first:
                for scope in scopes:
                    scope.count_starters(sign)

    def quiescent(self) -> bool:
        if any(isinstance(message, Data) for _, message in self._dataflows.early()):
            raise GraphError(
                f"worker {self._worker} cannot leave: records came for a dataflow that it has not built, and would "
                f"be lost; build every dataflow of the job before worker.leave()"
            )
        for scopes in self._dataflows.scopes_by_dataflow().values():
            for scope in scopes:
                if any(
                    _busy(child.operator) for child in scope.children() if isinstance(child.operator, BuiltOperator)
                ):
                    return False
        roots = self._dataflows.roots.values()
        if not any(root.untold() for root in roots):
            return True
        for root in roots:
            root.tell_all()
        return False


def _busy(operator: BuiltOperator) -> bool:
    return any(output.held for output in operator.outputs) or any(
        True for handle in operator.inputs for _ in handle.queued()
    )


def _scope_state(channel: int, state: ProgressState) -> ScopeState:
    return ScopeState(
        channel,
        tuple((location, time, count) for (location, time), count in state.pointstamps.items()),
        tuple((location, time, count) for (location, time), count in state.exits.items()),
        tuple(state.next_in.items()),
    )
