"""The hash xxh64, compiled: bit for bit that of the `xxhash` library.

Keys are mostly short, and their sizes vary, so that branches on them are mispredicted. The tail of a key, after its
whole words, is therefore hashed branch-free: each step is computed, then selected or not.
"""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined
from routing.columns.memory import load_u64, load_up_to_8

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)
_BYTE = np.uint64(0xFF)
_HALF = np.uint64(0xFFFFFFFF)


@inlined
def _rotate_left(word, by):
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@inlined
def _round(lane, word):
    return _rotate_left(lane + word * _P2, 31) * _P1


@inlined
def _mix_word(hash, word):
    return _rotate_left(hash ^ _round(_ZERO, word), 27) * _P1 + _P4


@inlined
def _select(hash, other, condition):
    """`other` if the condition holds, else `hash`, without a branch."""
    return hash ^ ((hash ^ other) & (_ZERO - np.uint64(condition)))


@inlined
def _mix_byte(hash, octet, condition):
    return _select(hash, _rotate_left(hash ^ ((octet & _BYTE) * _P5), 11) * _P1, condition)


@inlined
def _mix_tail(hash, word, size):
    """Mix in the first `size` bytes of a word, fewer than 8."""
    four = size >> 2
    hash = _select(hash, _rotate_left(hash ^ ((word & _HALF) * _P1), 23) * _P2 + _P3, four)
    word >>= np.uint64(32 * four)
    size &= 3
    hash = _mix_byte(hash, word, size > 0)
    hash = _mix_byte(hash, word >> np.uint64(8), size > 1)
    return _mix_byte(hash, word >> np.uint64(16), size > 2)


@inlined
def _avalanche(hash):
    hash = (hash ^ (hash >> np.uint64(33))) * _P2
    hash = (hash ^ (hash >> np.uint64(29))) * _P3
    return hash ^ (hash >> np.uint64(32))


@inlined
def xxh64(at, size, end, seed):
    """The hash of `size` bytes at an address; at `end`, memory may end."""
    left = size
    if size >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while left >= 32:
            one = _round(one, load_u64(at))
            two = _round(two, load_u64(at + 8))
            three = _round(three, load_u64(at + 16))
            four = _round(four, load_u64(at + 24))
            at += 32
            left -= 32
        hash = _rotate_left(one, 1) + _rotate_left(two, 7) + _rotate_left(three, 12) + _rotate_left(four, 18)
        hash = (hash ^ _round(_ZERO, one)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, two)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, three)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, four)) * _P1 + _P4
    else:
        hash = seed + _P5
    hash += np.uint64(size)
    while left >= 8:
        hash = _mix_word(hash, load_u64(at))
        at += 8
        left -= 8
    if left > 0:
        hash = _mix_tail(hash, load_up_to_8(at, left, end), left)
    return _avalanche(hash)


@inlined
def xxh64_of_word(word, seed):
    """The hash of a word's eight bytes, little-endian."""
    return _avalanche(_mix_word(seed + _P5 + np.uint64(8), word))
