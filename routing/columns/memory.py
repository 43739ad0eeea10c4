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

from routing.columns.compiled import inlined, kernel

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
def load_u8(typing_context, address):
    """The byte at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.uint64(types.int64), generate


@_intrinsic
def trailing_zeros(typing_context, word):
    """How many bits of a word, from the lowest on, are zero; 64 if all are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@_intrinsic
def prefetch(typing_context, address):
    """Have what is at an address on its way from memory to the second cache, if it can be.

    The first waits for few lines at a time: loops that look ahead take a sixth longer if it is asked.
    """
    return types.void(types.int64), _prefetching(to_write=False, locality=2)


@_intrinsic
def prefetch_to_write(typing_context, address):
    """Have the first cache make an address its own, if it can be: something is about to be written there.

    The processor foresees this for a few places that are written to by turns, and not for a dozen.
    """
    return types.void(types.int64), _prefetching(to_write=True, locality=3)


def _prefetching(*, to_write: bool, locality: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        octet, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [octet, number, number, number])
        function = _declare(builder.module, kind, "llvm.prefetch.p0")
        pointer = builder.inttoptr(arguments[0], octet)
        builder.call(function, [pointer, number(int(to_write)), number(locality), number(1)])
        return context.get_dummy_value()

    return generate


@inlined
def address_of(array):
    """Where an array begins, as a signed number: with one that has no sign the compiler would add in fractions."""
    return np.int64(array.ctypes.data)


WORD = 8
"""No bytes of keys lie in an array shorter than this: see `padded`."""


def padded(octets: Array) -> Array:
    """Bytes, and others behind them if they are fewer than a word."""
    return octets if len(octets) >= WORD else np.concatenate([octets, np.zeros(WORD - len(octets), np.uint8)])


@inlined
def load_before(address, end):
    """The eight bytes at an address, or those before `end`, where memory may end, and zeros."""
    if address + 8 <= end:
        return load_u64(address)
    return load_u64(end - 8) >> np.uint64((8 * (address + 8 - end)) & 63)


@inlined
def load_up_to_8(address, size, end):
    """The first 8 bytes of the `size` at an address, or all of them and zeros; at `end`, memory may end."""
    word = load_before(address, end)
    if size < 8:
        word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    return word


@kernel
def copy_rest(target, source, size, end):
    """Copy what `size` bytes have beyond 8, whole words at a time, so that up to 7 more are written.

    It is not part of the loops that copy strings, since it would slow them down by a third, and most are short.
    """
    for at in range(8, size, 8):
        store(target + at, load_before(source + at, end))


@kernel
def copy_exactly(target, source, size):
    """Copy bytes one by one, for where there may be something behind them that must stay."""
    for at in range(size):
        store(target + at, np.uint8(load_u8(source + at)))
