"""Keys as bytes, by which a database finds them, and back.

Keys that are equal in Python's dictionaries have the same bytes, as they have the same hash (`routing.hashing`):
`1`, `1.0`, `True` and `Decimal("1.00")`, a `StrEnum` and its string, a named tuple and a tuple; so have all NaN. They
come back as the plainest of these.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from struct import Struct
from typing import Any

from framework.wire import codec
from routing.hashing import from_numpy, plain_decimal
from routing.state.nan_key import NAN

STR = b"s"
INT = b"i"
OTHER = b"v"

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_int64 = Struct(">q")


def key_to_bytes(key: Any) -> bytes:
    """The bytes of a key. Hot path: called per key of a batch.

    >>> key_to_bytes("tea"), key_to_bytes(True) == key_to_bytes(1.0)
    (b'stea', True)
    """
    if type(key) is str:
        try:
            return STR + key.encode()
        except UnicodeEncodeError:  # a lone surrogate, which the codec can write
            return OTHER + codec.encode_value(key)
    if type(key) is int and INT_MIN <= key <= INT_MAX:
        return INT + _int64.pack(key)
    plain = _plain(key)
    return key_to_bytes(plain) if type(plain) is not type(key) else OTHER + codec.encode_value(plain)


def key_from_bytes(encoded: bytes) -> Any:
    """The key that `key_to_bytes` made into `encoded`.

    >>> key_from_bytes(key_to_bytes(("tea", 1.0, None)))
    ('tea', 1, None)
    """
    kind, payload = encoded[:1], encoded[1:]
    if kind == STR:
        return payload.decode()
    if kind == INT:
        return _int64.unpack(payload)[0]
    return codec.decode_value(payload)


def _plain(key: Any) -> Any:
    match key:
        case int():
            return int(key)
        case float():
            return int(key) if key.is_integer() else NAN if key != key else float(key)
        case str():
            return str.__str__(key)
        case datetime():
            return (key if key.utcoffset() is None else key.astimezone(UTC)).replace(fold=0)
        case bytes():
            return bytes(key)
        case tuple():
            return tuple(_plain(item) for item in key)
        case Decimal():
            plain = plain_decimal(key)
            return plain if isinstance(plain, Decimal) else _plain(plain)
    number = from_numpy(key)
    return key if number is None else _plain(number)
