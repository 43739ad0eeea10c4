"""Words read at addresses: for the innermost loops of kernels.

To hand an array to a function makes the compiler count references to it, in the midst of a loop that takes a few
nanoseconds per record. An address is just a number. Whoever reads at one answers for what is there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from routing.columns.compiled import inlined

_intrinsic: Any = intrinsic
_declare: Any = cgutils.get_or_insert_function


@_intrinsic
def load_u64(typing_context, address):
    """The eight bytes at an address, little-endian."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        word = builder.load(pointer)
        word.align = 1
        return word

    return types.uint64(types.int64), generate


@_intrinsic
def load_u8(typing_context, address):
    """The byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.int64), generate


@_intrinsic
def store_u64(typing_context, address, word):
    """Write eight bytes at an address, little-endian."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], pointer).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@_intrinsic
def store_u8(typing_context, address, octet):
    """Write a byte at an address: the last one of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        builder.store(builder.trunc(arguments[1], ir.IntType(8)), pointer)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def trailing_zeros(typing_context, word):
    """How many zeros a word, which is not 0, ends with."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate


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
        word |= load_u8(address + byte) << np.uint64(8 * byte)
    return word
