"""Unchecked memory access for the innermost loops of kernels: loads, stores and prefetches at addresses.

numba counts references to an array that is an argument of a function, and tests whether an index is negative: too much
for a loop of a few nanoseconds per record. An address is an `int64`, and its user answers for its bounds.
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
    """An uninitialised array from Arrow's memory pool.

    The pool reuses what was freed. Of fresh memory, the kernel clears each page at its first fault: for the arrays of a
    batch that takes as long as to hash its keys.
    """
    return np.frombuffer(pa.allocate_buffer(size * np.dtype(dtype).itemsize), dtype)


@_intrinsic
def load_u64(typing_context, address):
    """The eight bytes at an address, little-endian; it need not be aligned."""
    return types.uint64(types.int64), _load(types.uint64)


@_intrinsic
def load_i64(typing_context, address):
    """The signed integer of eight bytes at an address."""
    return types.int64(types.int64), _load(types.int64)


@_intrinsic
def load_f64(typing_context, address):
    """The double at an address."""
    return types.float64(types.int64), _load(types.float64)


@_intrinsic
def store(typing_context, address, value):
    """Write a number at an address, with the width of its type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.get_value_as_data(builder, signature.args[1], arguments[1])
        builder.store(data, builder.inttoptr(arguments[0], data.type.as_pointer())).align = 1
        return context.get_dummy_value()

    return types.void(types.int64, value), generate


def _load(kind: Any) -> Any:
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
    """The number of trailing zero bits of a word; 64 if all are."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@_intrinsic
def prefetch(typing_context, address):
    """Prefetch the cache line of an address into L2.

    L1 has few line fill buffers: pipelined loops take a sixth longer if they prefetch into it.
    """
    return types.void(types.int64), _prefetch(to_write=False, locality=2)


@_intrinsic
def prefetch_to_write(typing_context, address):
    """Prefetch the cache line of an address into L1 for writing.

    The hardware prefetcher follows a few write streams, not a dozen.
    """
    return types.void(types.int64), _prefetch(to_write=True, locality=3)


def _prefetch(*, to_write: bool, locality: int) -> Any:
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
    """The address of an array, signed: numba promotes int64 + uint64 to float64."""
    return np.int64(array.ctypes.data)


WORD = 8
"""The bytes of keys are never in an array shorter than a word, so that `load_before` may read one: see `padded`."""


def padded(octets: Array) -> Array:
    """Bytes, padded to at least a word."""
    return octets if len(octets) >= WORD else np.concatenate([octets, np.zeros(WORD - len(octets), np.uint8)])


@inlined
def load_before(address, end):
    """The eight bytes at an address; zeros from `end` on, where memory may end."""
    if address + 8 <= end:
        return load_u64(address)
    return load_u64(end - 8) >> np.uint64((8 * (address + 8 - end)) & 63)


@inlined
def load_up_to_8(address, size, end):
    """The first 8 of the `size` bytes at an address, padded with zeros; at `end`, memory may end."""
    word = load_before(address, end)
    if size < 8:
        word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    return word


@kernel
def copy_rest(target, source, size, end):
    """Copy what `size` bytes have beyond 8, by whole words, so that up to 7 more are written.

    Not inlined into the loops that copy strings: most strings are short, and it would slow these down by a third.
    """
    for at in range(8, size, 8):
        store(target + at, load_before(source + at, end))


@kernel
def copy_exactly(target, source, size):
    """Copy bytes one by one, where those behind the target must stay."""
    for at in range(size):
        store(target + at, np.uint8(load_u8(source + at)))
