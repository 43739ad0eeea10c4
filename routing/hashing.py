"""The hash that decides where a key lives: the same in every process, on every machine, in every version.

Keys that Python's dictionaries take for the same hash alike: `1`, `1.0`, `True`, `Decimal("1.00")` and NumPy's
`int64(1)`, `0.0` and `-0.0`; so do all NaN, which are one key (`routing.state.nan_key`). Keys of different kinds hash
apart: `1`, `"1"` and `b"1"`. The hash is xxh64 of a key's bytes; the kind is the seed, so that a column of strings or
numbers can be hashed in place:

========================  ====  =======================================================================
key                       seed  bytes
========================  ====  =======================================================================
str                       1     UTF-8
bytes                     2     themselves
int, bool, integral       3     two's complement, little-endian: 8 bytes, and more only if it takes more
float
float                     4     IEEE 754 double, little-endian; there is one NaN
None                      5     none
tuple                     6     the hashes of its items, each in 8 bytes, little-endian
date                      7     days since 1970-01-01, as an int
datetime without a zone   8     microseconds since 1970-01-01, as an int
datetime with one         9     microseconds since 1970-01-01 in UTC, as an int
Decimal                   10    if no int or float equals it: digits without trailing zeros, "E", exponent
UUID                      11    its 16 bytes
Enum                      12    the member's name, UTF-8; of a Flag the value, as an int
========================  ====  =======================================================================

A Decimal of more than 4,300 digits before the point hashes apart from an equal int, which would have to be made first.
Members of different Enums are different keys, wherever they hash to.

A state on disk is found by its key's bin, and all workers must agree on it: nothing here may ever change.
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from math import nan
from struct import pack
from typing import Any
from uuid import UUID

from xxhash import xxh64_intdigest

from framework.errors import UserError

STR_SEED = 1
BYTES_SEED = 2
INT_SEED = 3
FLOAT_SEED = 4
NONE_SEED = 5
TUPLE_SEED = 6
DATE_SEED = 7
NAIVE_SEED = 8
ZONED_SEED = 9
DECIMAL_SEED = 10
UUID_SEED = 11
ENUM_SEED = 12

INTEGER_DIGITS_MAX = 4_300

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UnsupportedKey(UserError):
    """A key is of a type that has no stable hash."""


def stable_hash(key: Any) -> int:
    """64 bits that stand for `key` everywhere and for ever. Hot path: called per record when records are routed.

    >>> stable_hash("tea"), stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    (11989998076931344876, True)
    """
    if type(key) is str:
        try:
            return xxh64_intdigest(key.encode(), STR_SEED)
        except UnicodeEncodeError:
            return xxh64_intdigest(key.encode("utf-8", "surrogatepass"), STR_SEED)
    if type(key) is int:
        return _hash_int(key)
    if isinstance(key, tuple):
        return xxh64_intdigest(pack(f"<{len(key)}Q", *[stable_hash(item) for item in key]), TUPLE_SEED)
    return _hash_other(key)


def _hash_int(key: int, seed: int = INT_SEED) -> int:
    # One bit more than the magnitude for the sign; -(2**63) also fits 8 bytes, being its own complement.
    size = max(8, ((~key if key < 0 else key).bit_length() + 8) // 8)
    return xxh64_intdigest(key.to_bytes(size, "little", signed=True), seed)


def _hash_other(key: Any) -> int:
    """Subclasses are equal to what they derive from: an `IntEnum` to its integer, a `StrEnum` to its string."""
    match key:
        case str():
            return stable_hash(str.__str__(key))
        case int():
            return _hash_int(int(key))
        case float():
            return _hash_float(key)
        case bytes():
            return xxh64_intdigest(key, BYTES_SEED)
        case None:
            return xxh64_intdigest(b"", NONE_SEED)
        case datetime():
            if key.utcoffset() is None:
                return _hash_int((key.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, NAIVE_SEED)
            return _hash_int((key - _EPOCH_UTC) // _MICROSECOND, ZONED_SEED)
        case date():
            return _hash_int(key.toordinal() - _EPOCH_DAY, DATE_SEED)
        case Decimal():
            return _hash_decimal(key)
        case UUID():
            return xxh64_intdigest(key.bytes, UUID_SEED)
        case Flag():
            return _hash_int(key.value, ENUM_SEED)
        case Enum():
            return xxh64_intdigest(key.name.encode("utf-8", "surrogatepass"), ENUM_SEED)
    number = from_numpy(key)
    if number is not None:
        return stable_hash(number)
    raise UnsupportedKey(
        f"{key!r} is a {type(key).__qualname__}, which has no stable hash; make the key a str, bytes, int, float, "
        f"bool, Decimal, date, datetime, UUID, Enum, None or a tuple of these, for instance `tuple(...)` of a list"
    )


def plain_decimal(key: Decimal) -> int | float | Decimal:
    """The int or the float that equals a Decimal; else that without trailing zeros."""
    if not key.is_finite():
        return nan if key.is_nan() else float(key)
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    significant = len(digits)
    while significant and digits[significant - 1] == 0:
        significant -= 1
    if not significant:
        return 0
    exponent += len(digits) - significant
    if exponent >= 0 and key.adjusted() < INTEGER_DIGITS_MAX:
        return int(key)
    number = float(key)
    return number if number == key else Decimal((sign, digits[:significant], exponent))


def from_numpy(key: Any) -> int | float | None:
    """The int, bool or float that equals a scalar of NumPy; None if it is something else."""
    numpy = sys.modules.get("numpy")  # without it there is no scalar
    if numpy is not None and isinstance(key, numpy.generic) and key.dtype.kind in "biuf":
        number = key.item()
        return number if isinstance(number, int | float) else None
    return None


def _hash_decimal(key: Decimal) -> int:
    plain = plain_decimal(key)
    if not isinstance(plain, Decimal):
        return stable_hash(plain)
    sign, digits, exponent = plain.as_tuple()
    return xxh64_intdigest(f"{'-' * sign}{''.join(map(str, digits))}E{exponent}".encode(), DECIMAL_SEED)


def _hash_float(key: float) -> int:
    if key.is_integer():
        return _hash_int(int(key))
    return xxh64_intdigest(pack("<d", key if key == key else nan), FLOAT_SEED)
