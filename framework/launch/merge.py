"""What the workers of an example returned, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from framework.errors import GraphError

R = TypeVar("R")


@runtime_checkable
class Mergeable(Protocol):
    """Something that each worker has a part of."""

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """The whole."""


def merge(results: list[R]) -> R:
    """One value for what each worker returned: parts of a whole, also in tuples, lists and dicts, or equal values."""
    merged: R = _merge(results)
    return merged


def _merge(results: list[Any]) -> Any:
    first, *others = results
    if not others:
        return first
    if all(type(other) is type(first) for other in others):
        if isinstance(first, Mergeable):
            return first.merged(results)
        if isinstance(first, tuple | list) and len({len(result) for result in results}) == 1:
            parts = [_merge(list(parts)) for parts in zip(*results, strict=True)]
            return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
        if isinstance(first, dict) and all(other.keys() == first.keys() for other in others):
            return {key: _merge([result[key] for result in results]) for key in first}
    if all(other == first for other in others):
        return first
    raise GraphError(
        f"the function that built the example returned {first!r} on one worker and {others[0]!r} on another, which "
        f"cannot be merged; return what `extract()` gives, or a tuple, list or dict of such"
    )
