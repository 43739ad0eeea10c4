"""NumPy's scalars on the wire: a letter for the type, and bytes. NumPy is loaded when the first one is met.

Those of text and bytes have types of their own, too, and travel as the text or bytes that they hold. Structures and
references to objects do not travel.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBERS = re.compile(r"[?bBhHiIlLqQefdgFDG]|<[mM]8(\[\d*\w+\])?")


def is_scalar(cls: type) -> bool:
    """Whether it is a type of NumPy's scalars that travels."""
    if cls.__module__ != "numpy":
        return False
    import numpy as np

    return issubclass(cls, np.generic) and not issubclass(cls, np.void | np.object_)


def lower(value: Any) -> list[Any]:
    """The type and the content of a scalar."""
    kind = value.dtype.kind
    if kind == "U":
        return [kind, str.__str__(value)]  # `str` would cut trailing zeros off
    if kind == "S":
        return [kind, bytes(value)]
    return [value.dtype.str if kind in "mM" else value.dtype.char, value.tobytes()]


def lift(plain: list[Any]) -> Any:
    """The scalar again."""
    import numpy as np

    match plain:
        case ["U", str(text)]:
            return np.str_(text)
        case ["S", bytes(octets)]:
            return np.bytes_(octets)
        case [str(kind), bytes(octets)] if _NUMBERS.fullmatch(kind):
            [scalar] = np.frombuffer(octets, np.dtype(kind))
            return scalar
    raise ValueError("no scalar of NumPy")
