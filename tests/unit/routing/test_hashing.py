"""The stable hash: equal keys alike, different kinds apart, and never another value than today's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, localcontext
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from fractions import Fraction
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from routing.hashing import UnsupportedKey, stable_hash

GOLDEN: list[tuple[Any, int]] = [
    ("", 15397730242686860875),
    ("tea", 11989998076931344876),
    ("Grüße", 7216989198675213785),
    ("😀", 9745168793061488914),
    (b"", 6514724804207875695),
    (b"\x00\xff", 1400594961068100996),
    (0, 14051786022836286634),
    (1, 2835497721128764897),
    (-1, 9569467979716190018),
    (2147483648, 13453830012772151351),
    (9223372036854775807, 13703429998391431005),
    (9223372036854775808, 15020140725738658722),
    (-9223372036854775808, 18020255982434238166),
    (-9223372036854775809, 4886372198211164148),
    (1000000000000000000000000000000, 4592341431070307537),
    (0.5, 14483059044096850779),
    (-2.75, 15353901318468048900),
    (1e-300, 8136590225152151128),
    (float("inf"), 14876951697290783370),
    (None, 5467884547391421755),
    ((), 16100099118695303065),
    (("tea", 1), 4400225613045518394),
    ((("a", None), 2.5, b"x"), 16750065795299391135),
    (float("nan"), 3697216748941550559),
    (date(2020, 2, 29), 9233608716257522299),
    (date(1, 1, 1), 2839443231827169486),
    (datetime(2020, 2, 29, 12, 30, 1, 5), 4867782309023860430),
    (datetime(1900, 1, 1, tzinfo=UTC), 11369411694119537476),
    (Decimal("-0.10"), 17857884140186875271),
    (UUID(int=7), 6299264637940076601),
]

SCALARS = st.one_of(
    st.text(),
    st.binary(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.builds(Decimal, st.floats() | st.integers()),
    st.builds(np.int16, st.integers(-(2**15), 2**15 - 1)),
    st.builds(np.float32, st.floats(width=32)),
)
KEYS = st.recursive(SCALARS, lambda keys: st.lists(keys, max_size=4).map(tuple), max_leaves=8)


class Color(IntEnum):
    RED = 1


class Size(StrEnum):
    LARGE = "large"


class Rank(IntFlag):
    NONE = 0


class Tea(StrEnum):
    HOT = "tea"


class NewYear(date, Enum):
    THIS = 2026, 1, 1


class Side(Enum):
    BUY = (1, "b")
    SELL = (2, "s")
    PURCHASE = BUY


class Rights(Flag):
    READ = auto()
    WRITE = auto()


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(("key", "expected"), GOLDEN)
def test_golden_values(key: Any, expected: int):
    """States on disk are found by these: a change here loses everybody's."""
    assert stable_hash(key) == expected


@pytest.mark.parametrize(
    ("key", "octets", "seed"),
    [
        ("tea", b"tea", 1),
        (b"tea", b"tea", 2),
        (258, bytes([2, 1, 0, 0, 0, 0, 0, 0]), 3),
        (-1, b"\xff" * 8, 3),
        (2**63, bytes(7) + b"\x80\x00", 3),
        (0.5, bytes(6) + b"\xe0\x3f", 4),
        (None, b"", 5),
        ((), b"", 6),
        (("tea",), xxh64_intdigest(b"tea", 1).to_bytes(8, "little"), 6),
    ],
)
def test_the_bytes_that_are_hashed(key: Any, octets: bytes, seed: int):
    """A kernel over columns hashes the same bytes in place."""
    assert stable_hash(key) == xxh64_intdigest(octets, seed)


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Color.RED, Decimal(1), Decimal("1.00"), Decimal("10E-1"), np.uint8(1), np.bool_(True)),
        (0, 0.0, -0.0, False, Decimal("-0"), Decimal("0.00"), Decimal("0E+99999999"), np.float16(0), Rank.NONE),
        (1200, Decimal("1.2E+3"), np.int64(1200), np.float32(1200)),
        (0.5, Decimal("0.500"), np.float16(0.5), np.float64(0.5)),
        (0.1, Decimal.from_float(0.1)),
        (Decimal("0.1"), Decimal("0.100"), Decimal("1E-1")),
        (10**4000, Decimal("1E+4000")),
        (Decimal("1E+999999999"), Decimal("10E+999999998")),
        ("tea", np.str_("tea"), Tea.HOT),
        (date(2026, 1, 1), NewYear.THIS),
        (float("inf"), Decimal("Infinity"), np.float32("inf")),
        (Side.BUY, Side.PURCHASE, Side((1, "b"))),
        (Rights.READ | Rights.WRITE, Rights(3)),
        (UUID(int=5), UUID(hex="0" * 31 + "5")),
        (-(2**80), -(2.0**80)),
        (1e300, int(1e300)),
        ("large", Size.LARGE),
        ((1, 2), (1.0, 2.0), Point(1, 2), (True, 2)),
        (float("nan"), -float("nan"), float("inf") - float("inf"), Decimal("NaN"), Decimal("-NaN9"), np.float32("nan")),
    ],
)
def test_equal_keys(equal: tuple[Any, ...]):
    assert len({stable_hash(key) for key in equal}) == 1


def test_keys_of_different_kinds():
    keys = ["1", 1, b"1", 1.5, None, (), (1,), ("1",), ((1,),), "", b"", "\0", -1, 2**63, -(2**63), -(2**63) - 1]
    keys += [Decimal("0.1"), Decimal("-0.1"), Decimal("0.01"), UUID(int=1), UUID(int=2), Side.BUY, Side.SELL, Rights(0)]
    keys += [
        Rights.READ,
        float("inf"),
        -float("inf"),
        float("nan"),
        (1, 2),
        (2, 1),
        ((1, 2),),
        ("ab",),
        ("a", "b"),
        "ab",
    ]
    assert len({stable_hash(key) for key in keys}) == len(keys)


def test_a_lone_surrogate():
    assert stable_hash("\ud800") == xxh64_intdigest(b"\xed\xa0\x80", 1)


@given(KEYS, KEYS)
def test_keys_that_a_dictionary_takes_for_one_hash_alike(one: Any, other: Any):
    assert 0 <= stable_hash(one) < 2**64
    if hash(one) == hash(other) and one == other:
        assert stable_hash(one) == stable_hash(other)


@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_integral_floats(number: int):
    if int(float(number)) == number:
        assert stable_hash(float(number)) == stable_hash(number)


@given(st.lists(st.one_of(st.text(), st.binary(), st.integers(), st.none()), unique=True))
def test_different_keys_hash_apart(keys: list[Any]):
    assert len({stable_hash(key) for key in keys}) == len(keys)


def test_the_same_moment_hashes_alike_in_all_zones_and_apart_from_a_day_and_a_clock_without_a_zone():
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert stable_hash(noon) == stable_hash(noon.astimezone(timezone(timedelta(hours=5))))
    day = datetime(2026, 3, 1)
    assert len({stable_hash(key) for key in (day, day.replace(tzinfo=UTC), day.date())}) == 3
    assert stable_hash(day.replace(fold=1)) == stable_hash(day)


def test_a_decimal_is_hashed_whatever_the_precision_of_the_context():
    fine = Decimal("0.123456789012345678901234567890")
    expected = stable_hash(fine)
    with localcontext(prec=3):
        assert stable_hash(fine) == expected
        assert stable_hash(Decimal("0.123456789012345678901234567891")) != expected


def test_another_process_agrees():
    """Python's own hash of a string is salted per process."""
    code = "from routing.hashing import stable_hash; print(stable_hash(('tea', 7, None, 2.5)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(output) == stable_hash(("tea", 7, None, 2.5))


@pytest.mark.parametrize(
    "key",
    [
        [1],
        {"a": 1},
        {1},
        frozenset([1]),
        time(1, 2),
        Fraction(1, 2),
        1j,
        object(),
        ("a", [1]),
        np.array([1]),
        np.datetime64(5, "ns"),
        np.timedelta64(5, "ns"),
        np.complex64(1),
        np.longdouble("0.1"),
    ],
)
def test_a_key_without_a_stable_hash(key: Any):
    with pytest.raises(UnsupportedKey, match="which has no stable hash; make the key a str, bytes, int"):
        stable_hash(key)


def test_the_top_bits_are_spread():
    """Bins are the top bits: 16 bins of 4096 keys have about 256 each, whatever the keys."""
    kinds: list[Callable[[int], Any]] = [str, int, float, lambda n: (n, "x"), lambda n: n.to_bytes(2, "little")]
    for kind in kinds:
        bins = [0] * 16
        for n in range(4096):
            bins[stable_hash(kind(n)) >> 60] += 1
        assert min(bins) > 180
        assert max(bins) < 340
