"""Words that grow: what was written stays, what is new is 0, on systems that can move memory and on others."""

from __future__ import annotations

import mmap
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from routing.columns.table.mmap_array import MAPPED_WORDS_MIN, MmapArray


class Unmovable(mmap.mmap):
    """Memory of a system that cannot move it."""

    def resize(self, newsize: int) -> None:
        raise SystemError("mmap: resizing not available--no mremap()")


@pytest.mark.parametrize("kind", [mmap.mmap, Unmovable])
def test_what_was_written_stays_and_what_is_new_is_zero(kind: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("routing.columns.table.mmap_array.mmap.mmap", kind)
    growing_words, sizes = MmapArray(10), [10]
    while len(growing_words.words) < 4 * MAPPED_WORDS_MIN:
        written = len(growing_words.words)
        growing_words.words[:] = np.arange(1, written + 1)
        growing_words.grow(0)
        sizes.append(len(growing_words.words))
        assert (growing_words.words[:written] == np.arange(1, written + 1)).all()
        assert not growing_words.words[written:].any()
    assert all(2 * one <= other for one, other in pairwise(sizes))


def test_there_is_room_for_as_many_as_were_asked_for():
    words = MmapArray(10)
    for wanted in (100, MAPPED_WORDS_MIN + 1, 5 * MAPPED_WORDS_MIN):
        words.grow(wanted)
        words.words[wanted - 1] = 1
    assert words.words.sum() == 3
