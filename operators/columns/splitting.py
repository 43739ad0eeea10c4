"""The kernel of `split_words`: word-at-a-time (SWAR), eight bytes per step.

Every byte that is white space, or begins it in UTF-8, is below 33 or above 127; other bytes are copied by words.
"""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined, kernel
from routing.columns.memory import WORD, Array, address_of, empty, load_before, store, trailing_zeros

_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)


def words_between(offsets: Array, data: Array) -> tuple[Array, Array]:
    """The offsets and the bytes of the words of all texts."""
    start, end = int(offsets[0]), int(offsets[-1])
    ends = empty((end - start + len(offsets)) // 2 + 2, np.int32 if end - start < 2**31 else np.int64)
    words = empty(end - start + WORD, np.uint8)
    count, size = _split(offsets, data, ends, words)
    return ends[: count + 1], words[:size]


@inlined
def _space_size(data, at, end):
    """The size in UTF-8 of the white space beyond ASCII at an index; 0 if there is none. See `str.isspace`."""
    first = data[at]
    if first == 0xC2 and at + 1 < end:
        return 2 if data[at + 1] == 0x85 or data[at + 1] == 0xA0 else 0
    if at + 2 >= end:
        return 0
    second, third = data[at + 1], data[at + 2]
    if first == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE2:
        if second == 0x80:
            return 3 if 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF else 0
        return 3 if second == 0x81 and third == 0x9F else 0
    return 3 if first == 0xE3 and second == 0x80 and third == 0x80 else 0


@inlined
def _plain_bytes(word):
    """How many of eight bytes, from the first on, are between 33 and 127."""
    below = (word - np.uint64(33) * _ONES) & ~word
    return trailing_zeros((below | word) & _TOPS) >> 3


@kernel
def _split(offsets, data, ends, words):
    begin, target = address_of(data), address_of(words)
    limit, count, size = begin + len(data), 0, np.int64(0)
    ends[0] = 0
    for row in range(len(offsets) - 1):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        word_start = size
        while at < end:
            text = load_before(begin + at, limit)
            plain = min(_plain_bytes(text), end - at)
            store(target + size, text)
            size += plain
            at += plain
            if plain == 8 or at == end:
                continue
            octet = data[at]
            space = 0
            if octet <= 32:
                space = 1 if octet == 32 or 9 <= octet <= 13 or 28 <= octet <= 31 else 0
            else:
                space = _space_size(data, at, end)
            if space == 0:
                words[size] = octet
                size += 1
                at += 1
                continue
            at += space
            if size > word_start:
                count += 1
                ends[count] = size
                word_start = size
        if size > word_start:
            count += 1
            ends[count] = size
    return count, size
