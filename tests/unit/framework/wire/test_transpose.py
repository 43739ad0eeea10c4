from __future__ import annotations

import pytest

from framework.wire.transpose import SLICE_ROWS, transpose


@pytest.mark.parametrize("count", [0, 1, SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS])
def test_columns_are_the_same_however_many_slices_it_takes(count: int) -> None:
    columns = [[f"w{number}" for number in range(count)], list(range(count))]
    assert transpose(list(zip(*columns, strict=True))) == (columns if count else [])


@pytest.mark.parametrize("odd", [0, 1, SLICE_ROWS - 1, SLICE_ROWS, 2 * SLICE_ROWS - 1])
@pytest.mark.parametrize("row", [(), (1,), (1, 2, 3)])
def test_rows_that_differ_in_length_are_refused(odd: int, row: tuple[int, ...]) -> None:
    rows: list[tuple[int, ...]] = [(1, 2)] * (2 * SLICE_ROWS)
    rows[odd] = row
    with pytest.raises(ValueError, match="zip"):
        transpose(rows)


def test_slices_that_differ_from_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        transpose([(1, 2)] * SLICE_ROWS + [(1, 2, 3)] * SLICE_ROWS)
