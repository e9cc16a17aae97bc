"""The mean of each cell: exact and rounded half to even for integers, summed up in C order for floats.

1. Integers are added up in the narrowest type that their values can't make overflow, neighbours first if it
   is a wider one; 64-bit ones, if need be, in two halves of 32 bits.
2. Floats are added one after the other in C order, as TensorStore does, so that results are the same
   bits: in their own precision from 32 bits on, else in 32 bits.
3. A boolean is what more than half of the cell is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.plan.reduce_planes import cell_size, fold, planes

__all__ = ["mean_bool", "mean_float", "mean_int"]

Array = npt.NDArray[Any]


def mean_bool(block: Array) -> Array:
    """Return whether more than half of each cell is true."""
    n = cell_size(block)
    total = _sum(block.view(np.uint8), np.dtype(_accumulator(1, n, signed=False)))
    majority: Array = total > n // 2
    return majority


def mean_float(block: Array, work: np.dtype[Any]) -> Array:
    """Return the mean in `work`, of floats or complex numbers."""
    n = cell_size(block)
    every = planes(block)
    first, second = next(every), next(every, None)
    if second is None:
        total = first.astype(work)
    else:
        total = np.add(first, second, dtype=work, casting="unsafe")
    for plane in every:
        np.add(total, plane, out=total, dtype=work, casting="unsafe")
    total += work.type(0)  # what a sum that begins with 0.0 is where there is nothing but -0.0
    # Complex numbers by component: NumPy's quotient of complex numbers rounds more than once.
    parts = total[..., None].view(work.type(0).real.dtype)
    np.divide(parts, parts.dtype.type(n), out=parts)
    return total


def mean_int(block: Array) -> Array:
    """Return the mean of integers, rounded half to even, in an integer type that holds it."""
    n = cell_size(block)
    signed = block.dtype.kind == "i"
    info = np.iinfo(block.dtype)
    largest = max(-int(info.min), int(info.max))
    if block.dtype.itemsize > 1 and block.size:
        # Most numbers are small ones: it takes less to look at them than to add them up in a wider type.
        largest = _largest(block)
    found = _accumulator(largest, n, signed=signed)
    if found is None:
        return _mean_wide(block, n)
    work = max(np.dtype(found), block.dtype, key=lambda dtype: dtype.itemsize)
    mean: Array = _divide(_sum(block, work).astype(work, copy=False), n)
    return mean


def _largest(block: Array) -> int:
    """Return a bound for the size of the elements, at least 1."""
    if block.dtype.kind == "u":
        return max(int(block.max()), 1)
    if block.dtype.itemsize > 2 and int(block[0].min()) >= 0:
        bits = int(np.bitwise_or.reduce(block, axis=None))  # less than twice the largest of them
        if bits >= 0:
            return max(bits, 1)
    return max(-int(block.min()), int(block.max()), 1)


def _sum(block: Array, work: np.dtype[Any]) -> Array:
    """Return the sum of each cell in the integer type `work`, in which it doesn't overflow."""
    # Neighbours that are half as wide as `work` are added where they lie: together they are one number of
    # that width, whose halves, by shifts, are the two.
    size = block.dtype.itemsize
    beside = block.shape[-1] == 2 and block.strides[-2:] == (2 * size, size)
    if not beside or work.itemsize != 2 * size or work.kind != block.dtype.kind:
        return fold(block, np.add, work)
    pairs = block.reshape(*block.shape[:-2], -1).view(work)
    bits = 8 * size
    if work.kind == "u":
        lower = pairs & ((1 << bits) - 1)
    else:
        lower = pairs << bits
        lower >>= bits
    lower += pairs >> bits
    return fold(lower[..., None], np.add, work)


def _accumulator(largest: int, n: int, *, signed: bool) -> str | None:
    """Return the narrowest type for the sum of `n` numbers, and for what rounding adds to it."""
    total = n * largest + n
    for bits in (16, 32, 64):
        if total < 2 ** (bits - signed):
            return f"{'i' if signed else 'u'}{bits // 8}"
    return None


def _divide(total: Array, n: int) -> Any:
    """Return ``total / n``, rounded half to even; adding `n` to `total` must not overflow."""
    if n == 1:
        return total
    if n & (n - 1) == 0:
        shift = n.bit_length() - 1
        odd = (total >> shift) & 1
        odd += total
        odd += n // 2 - 1
        odd >>= shift
        return odd
    shifted = total + total.dtype.type(n // 2)
    quotient = shifted // total.dtype.type(n)
    if n % 2 == 0:
        tie = (quotient * total.dtype.type(n) == shifted) & (quotient & 1 == 1)
        quotient -= tie
    return quotient


def _mean_wide(block: Array, n: int) -> Array:
    """Return the mean of 64-bit integers whose sum takes more bits; for cells of up to 2**31 elements."""
    # x = 2**32 * high + low, where low is not negative.
    high = np.zeros(block.shape[::2], block.dtype)
    low = np.zeros(block.shape[::2], np.uint64)
    for plane in planes(block):
        high += plane >> 32
        low += plane.view(np.uint64) & 0xFFFFFFFF
    quotient = high // n
    rest = (high - quotient * n).astype(np.uint64)
    rest = (rest << 32) + low
    part = rest // n
    rest -= part * n
    mean: Array = (quotient << 32) + part.astype(block.dtype)
    double = rest * 2
    mean += (double > n) | ((double == n) & (mean & 1 == 1))
    return mean
