"""Hashes columns of keys with xxh64: the hashes that `routing.hashing.stable_hash` gives for the same keys in rows."""

from __future__ import annotations

import numpy as np
from xxhash import xxh64_intdigest

from routing.columns.compiled import inlined, kernel
from routing.columns.memory import address_of
from routing.columns.xxh64 import xxh64, xxh64_of_word
from routing.hashing import FLOAT_SEED, INT_SEED, NONE_SEED, TUPLE_SEED

HASH_OF_NONE = np.uint64(xxh64_intdigest(b"", NONE_SEED))
_INT, _FLOAT, _TUPLE = np.uint64(INT_SEED), np.uint64(FLOAT_SEED), np.uint64(TUPLE_SEED)
_INT64_BOUND = 2.0**63
_FLOAT_BYTES_MAX = 136
"""The size of the largest integral double as an integer: 1024 bits and the sign, in whole words."""


@kernel
def hash_bytes(offsets, data, seed, out):
    """Hash byte strings, between offsets."""
    begin, start = address_of(data), np.int64(offsets[0])
    end = begin + len(data)
    for row in range(len(out)):
        stop = np.int64(offsets[row + 1])
        out[row] = xxh64(begin + start, stop - start, end, seed)
        start = stop


@kernel
def hash_words(words, seed, out):
    """Hash integers of 8 bytes."""
    for row in range(len(out)):
        out[row] = xxh64_of_word(np.uint64(words[row]), seed)


@kernel
def hash_unsigned(words, out):
    """Hash unsigned integers: in the upper half of the range, a signed integer takes 9 bytes."""
    scratch = np.zeros(9, np.uint8)
    for row in range(len(out)):
        word = words[row]
        if word >> np.uint64(63):
            for byte in range(8):
                scratch[byte] = np.uint8((word >> np.uint64(8 * byte)) & np.uint64(255))
            begin = address_of(scratch)
            out[row] = xxh64(begin, np.int64(9), begin + 9, _INT)
        else:
            out[row] = xxh64_of_word(word, _INT)


@kernel
def hash_doubles(values, words, out):
    """Hash doubles, `words` being their bits: an integral one hashes as the integer that it equals."""
    scratch = np.zeros(_FLOAT_BYTES_MAX, np.uint8)
    for row in range(len(out)):
        value = values[row]
        if value != np.floor(value) or np.isinf(value):
            out[row] = xxh64_of_word(words[row], _FLOAT)
        elif -_INT64_BOUND <= value < _INT64_BOUND:
            out[row] = xxh64_of_word(np.uint64(np.int64(value)), _INT)
        else:
            out[row] = _hash_large(words[row], scratch)


@inlined
def _hash_large(word, scratch):
    """Hash an integral double beyond 64 bits as an integer: the mantissa, shifted, in two's complement."""
    mantissa = (word & np.uint64(0xFFFFFFFFFFFFF)) | np.uint64(1 << 52)
    shift = np.int64((word >> np.uint64(52)) & np.uint64(0x7FF)) - 1075
    negative = word >> np.uint64(63) != np.uint64(0)
    # The size as in `stable_hash`: the bits of n, or of ~n if n is negative, and the sign.
    bits = shift + 53
    if negative and mantissa == np.uint64(1 << 52):
        bits -= 1
    size = max(np.int64(8), (bits + 8) // 8)
    for byte in range(size):
        scratch[byte] = 0
    for bit in range(53):
        if (mantissa >> np.uint64(bit)) & np.uint64(1):
            place = shift + bit
            if place < 8 * size:
                scratch[place // 8] |= np.uint8(1 << (place % 8))
    if negative:
        carry = np.int64(1)
        for byte in range(size):
            complement = 255 - np.int64(scratch[byte]) + carry
            scratch[byte] = np.uint8(complement & 255)
            carry = complement >> 8
    begin = address_of(scratch)
    return xxh64(begin, size, begin + len(scratch), _INT)


@kernel
def hash_tuples(hashes, out):
    """Hash tuples, from the hashes of their items, row by row."""
    at, width = address_of(hashes), 8 * hashes.shape[1]
    for row in range(len(out)):
        out[row] = xxh64(at, width, at + width, _TUPLE)
        at += width
