"""The hash xxh64, compiled: bit for bit that of the `xxhash` library."""

from __future__ import annotations

import numpy as np

from routing.columns.compiled import inlined

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)


@inlined
def _read(data, at, size):
    """So many bytes, little-endian; the compiler makes one load of them."""
    word = _ZERO
    for byte in range(size):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@inlined
def _rotated(word, by):
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@inlined
def _round(lane, word):
    return _rotated(lane + word * _P2, 31) * _P1


@inlined
def _avalanche(hash):
    hash = (hash ^ (hash >> np.uint64(33))) * _P2
    hash = (hash ^ (hash >> np.uint64(29))) * _P3
    return hash ^ (hash >> np.uint64(32))


@inlined
def xxh64(data, start, end, seed):
    """The hash of `data[start:end]`."""
    at = start
    if end - start >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _round(one, _read(data, at, 8))
            two = _round(two, _read(data, at + 8, 8))
            three = _round(three, _read(data, at + 16, 8))
            four = _round(four, _read(data, at + 24, 8))
            at += 32
        hash = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
        hash = (hash ^ _round(_ZERO, one)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, two)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, three)) * _P1 + _P4
        hash = (hash ^ _round(_ZERO, four)) * _P1 + _P4
    else:
        hash = seed + _P5
    hash += np.uint64(end - start)
    while at + 8 <= end:
        hash = _rotated(hash ^ _round(_ZERO, _read(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        hash = _rotated(hash ^ (_read(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        hash = _rotated(hash ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _avalanche(hash)


@inlined
def xxh64_of_word(word, seed):
    """The hash of a word's eight bytes, little-endian."""
    hash = seed + _P5 + np.uint64(8)
    return _avalanche(_rotated(hash ^ _round(_ZERO, word), 27) * _P1 + _P4)
