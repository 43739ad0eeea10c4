"""Memory for the innermost loops of kernels: arrays that cost little to make, and words at addresses.

To hand an array to a function makes the compiler count references to it, in the midst of a loop that takes a few
nanoseconds per record; to index one makes it look whether the index is negative. An address is just a number. Whoever
reads or writes at one answers for what is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from routing.columns.compiled import inlined

Array = np.ndarray[Any, Any]

_intrinsic: Any = intrinsic
_declare: Any = cgutils.get_or_insert_function


def empty(size: int, dtype: Any) -> Array:
    """An array of whatever was there before, from Arrow's pool.

    The pool gives out again what was let go of. The system would have to clear each page when it is first touched: for
    the arrays of a batch that takes as long as to hash its keys.
    """
    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize), dtype)


@_intrinsic
def load_u64(typing_context, address):
    """The eight bytes at an address, little-endian."""

    return types.uint64(types.int64), _loading(types.uint64)


@_intrinsic
def _load_u8(typing_context, address):
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.int64), generate


@_intrinsic
def load_i64(typing_context, address):
    """The signed number of eight bytes at an address."""
    return types.int64(types.int64), _loading(types.int64)


@_intrinsic
def load_f64(typing_context, address):
    """The fraction of eight bytes at an address."""
    return types.float64(types.int64), _loading(types.float64)


@_intrinsic
def store(typing_context, address, value):
    """Write a number at an address: 8 bytes, or 1 of a truth value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.get_value_as_data(builder, signature.args[1], arguments[1])
        builder.store(data, builder.inttoptr(arguments[0], data.type.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, value), generate


def _loading(kind: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_data_type(kind).as_pointer())
        word = builder.load(pointer)
        word.align = 1
        return word

    return generate


@_intrinsic
def prefetch(typing_context, address):
    """Have what is at an address on its way from memory, if it can be."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        octet, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [octet, number, number, number])
        function = _declare(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(arguments[0], octet)
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@inlined
def load_up_to_8(address, size, end):
    """The first 8 bytes of the `size` at an address, or all of them and zeros; at `end`, memory may end."""
    if address + 8 <= end:
        word = load_u64(address)
        if size < 8:
            word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
        return word
    word = np.uint64(0)
    for byte in range(min(size, 8)):
        word |= _load_u8(address + byte) << np.uint64(8 * byte)
    return word
