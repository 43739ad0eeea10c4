"""NumPy's scalars arrive as the same type and value; what is no scalar is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgpack
import numpy as np
import pytest

from framework.errors import ProtocolError, UnencodableRecord
from framework.wire.codec import decode_rows, decode_value, encode_rows, encode_value
from framework.wire.extensions import NUMPY


@pytest.mark.parametrize(
    "value",
    [
        np.int8(-1),
        np.uint64(2**64 - 1),
        np.longlong(3),
        np.bool_(True),
        np.float16(0.5),
        np.float32(0.1),
        np.float64(0.1),
        np.longdouble(0.1),
        np.complex64(1 + 2j),
        np.str_(""),
        np.str_("tea\0"),
        np.bytes_(b"tea\0"),
        np.datetime64("2026-01-01T12:00", "s"),
        np.datetime64("NaT", ("us", 25)),
        np.datetime64("NaT"),
        np.timedelta64(5, "D"),
        np.array([3, 4]).sum(),
        np.datetime64("2026-01-01").astype(">M8[D]"),
    ],
)
def test_a_scalar_comes_back(value: Any) -> None:
    [(arrived, _)] = decode_rows(encode_rows([(value, 1)]))
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)
    assert arrived.dtype == value.dtype


@pytest.mark.parametrize("value", [np.array([1]), np.array([(1, 2)], dtype="i4,i4")[0], np.dtype("i4")])
def test_what_is_no_plain_scalar_is_refused(value: Any) -> None:
    with pytest.raises(UnencodableRecord):
        encode_value(value)


@pytest.mark.parametrize(
    "plain",
    [
        ["l", b""],
        ["l", b"\0" * 16],
        ["l", "text"],
        ["O", b"\0" * 8],
        ["V8", b"\0" * 8],
        ["i4,i4", b"\0" * 8],
        ["<M8[parsec]", b"\0" * 8],
        ["U", b"\0" * 4],
        ["S", "text"],
        ["i"],
        [],
        {"l": b"\0" * 8},
    ],
)
def test_nonsense_is_a_protocol_error(plain: Any) -> None:
    with pytest.raises(ProtocolError):
        decode_value(msgpack.packb(msgpack.ExtType(NUMPY, msgpack.packb(plain))))


def test_who_has_no_scalars_does_not_load_numpy() -> None:
    code = (
        "import sys; from framework.wire.codec import *; decode_value(encode_value({3, 'a'})); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
