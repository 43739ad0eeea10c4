"""A plan is a value: steps, each of which moves some bins at one time.

It can be printed before it is run, kept as JSON, tried out on a table of owners, and cut in two. Which steps there are
is up to `routing.migration.strategies`; when each is sent, up to `routing.migration.runner`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.membership.members import WorkerId
from routing.bins import BinId
from routing.commands import Control, Move
from routing.errors import PlanInvalid


@dataclass(frozen=True, slots=True)
class Transfer:
    """One bin goes from one worker to another."""

    bin_id: BinId
    source: WorkerId
    target: WorkerId
    state_bytes: int = 0
    """The size of its state when the plan was made; 0 if it was not known."""

    def __str__(self) -> str:
        return f"{self.bin_id}: {self.source}→{self.target}"


@dataclass(frozen=True, slots=True)
class Step:
    """Bins that move at one time. No bin is named twice."""

    transfers: tuple[Transfer, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        """The instructions that carry the step out."""
        return tuple(Move(transfer.bin_id, transfer.target) for transfer in self.transfers)

    @property
    def state_bytes(self) -> int:
        """How much state the step moves, as far as it was known."""
        return sum(transfer.state_bytes for transfer in self.transfers)

    def controls(self, sequence: int) -> list[Control]:
        """The step as one set of control messages, to be sent at one time."""
        return [Control(sequence, len(self.transfers), move) for move in self.moves]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, to be taken one after the other.

    >>> ship = Transfer(BinId(17), source=WorkerId(0), target=WorkerId(2), state_bytes=4096)
    >>> print(Plan((Step((ship,)),)))
    step  bins  bytes  bin: from→to
       0     1   4096  17: 0→2
    >>> Plan.from_dict(Plan((Step((ship,)),)).to_dict()) == Plan((Step((ship,)),))
    True
    """

    steps: tuple[Step, ...]

    @property
    def bins(self) -> int:
        """How many bins move."""
        return sum(len(step.transfers) for step in self.steps)

    @property
    def state_bytes(self) -> int:
        """How much state moves, as far as it was known."""
        return sum(step.state_bytes for step in self.steps)

    def apply(self, owners: Sequence[WorkerId]) -> list[WorkerId]:
        """The owner of each bin when the plan has been carried out, or `PlanInvalid` if it was made for others."""
        result = list(owners)
        for index, step in enumerate(self.steps):
            for transfer in step.transfers:
                if not 0 <= transfer.bin_id < len(result):
                    raise PlanInvalid(
                        f"step {index} moves bin {transfer.bin_id}, but the bins are 0 to {len(result) - 1}; "
                        f"make the plan for this operator"
                    )
                if result[transfer.bin_id] != transfer.source:
                    raise PlanInvalid(
                        f"step {index} moves bin {transfer.bin_id} from worker {transfer.source}, but worker "
                        f"{result[transfer.bin_id]} owns it by then; make a new plan from the present owners"
                    )
                result[transfer.bin_id] = transfer.target
        return result

    def after(self, steps: int) -> Plan:
        """What is left of the plan when its first `steps` have been taken."""
        return Plan(self.steps[steps:])

    def to_dict(self) -> dict[str, Any]:
        """The plan in values that JSON has."""
        return {
            "steps": [
                [
                    {"bin": move.bin_id, "from": move.source, "to": move.target, "bytes": move.state_bytes}
                    for move in step.transfers
                ]
                for step in self.steps
            ]
        }

    @staticmethod
    def from_dict(document: Any) -> Plan:
        """The plan that `to_dict` made into `document`, or `PlanInvalid`."""
        match document:
            case {"steps": list(steps), **rest} if not rest:
                return Plan(tuple(_step(index, step) for index, step in enumerate(steps)))
        raise PlanInvalid(f'a plan is {{"steps": [[{_TRANSFER}, …], …]}}, not {str(document)[:80]}')

    def __str__(self) -> str:
        """The steps as a table."""
        rows = [("step", "bins", "bytes")]
        rows += [(str(index), str(len(step.transfers)), str(step.state_bytes)) for index, step in enumerate(self.steps)]
        moves = ["bin: from→to", *(", ".join(map(str, step.transfers)) for step in self.steps)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=True)), listed])
            for row, listed in zip(rows, moves, strict=True)
        )


_TRANSFER = '{"bin": 17, "from": 0, "to": 2, "bytes": 4096}'


def _step(index: int, transfers: Any) -> Step:
    if not isinstance(transfers, list) or not transfers:
        raise PlanInvalid(f"step {index} is not a list of moves, but {str(transfers)[:80]}; give it at least one")
    step = Step(tuple(_transfer(index, transfer) for transfer in transfers))
    if len({transfer.bin_id for transfer in step.transfers}) < len(step.transfers):
        raise PlanInvalid(f"step {index} moves a bin more than once; the moves of a step happen at one time")
    return step


def _transfer(index: int, fields: Any) -> Transfer:
    match fields:
        case {"bin": bin_id, "from": source, "to": target, "bytes": state_bytes, **rest} if not rest:
            if all(type(number) is int and number >= 0 for number in (bin_id, source, target, state_bytes)):
                return Transfer(BinId(bin_id), WorkerId(source), WorkerId(target), state_bytes)
    raise PlanInvalid(f"step {index} has a move that is not like {_TRANSFER}: {str(fields)[:80]}")


def check_sizes(bins: int, **measures: Mapping[BinId, float] | None) -> None:
    """Refuse measures of bins that do not exist, and negative ones."""
    for name, measure in measures.items():
        for bin_id, value in (measure or {}).items():
            if not 0 <= bin_id < bins:
                raise PlanInvalid(f"{name} has bin {bin_id}, but the bins are 0 to {bins - 1}")
            if not 0 <= value < float("inf"):
                raise PlanInvalid(f"{name} of bin {bin_id} is {value!r}, which is not a number from 0 on")
