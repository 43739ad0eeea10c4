"""Which processes join and leave."""

from __future__ import annotations

import pytest

from operators.control.scaling import Change, change_to


@pytest.mark.parametrize(
    ("count", "present", "change"),
    [
        (3, [0], Change(joins=2)),
        (3, [0, 1, 4], Change()),
        (2, [0, 1, 4, 7], Change(leaves=(7, 4))),
        (1, [4, 0, 7], Change(leaves=(7, 4))),
    ],
)
def test_the_highest_leave_first_and_the_first_stays(count: int, present: list[int], change: Change):
    assert change_to(count, present) == change
