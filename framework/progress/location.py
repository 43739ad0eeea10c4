"""The places of a dataflow graph where a time can be: output ports and input ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """An output port: to progress tracking, a source of times."""

    node: int
    port: int


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """An input port: to progress tracking, a target of times."""

    node: int
    port: int


Location: TypeAlias = Source | Target
