"""Reads of a downsampled array: pieces of the base are read, each cell is reduced to one element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop, in_event_loop
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.plan.accumulate import Accumulator
from chunkwise.core.plan.blocks import boxes
from chunkwise.core.plan.downsample import CellPiece, plan_downsample
from chunkwise.core.plan.reduce import (
    extreme_float,
    extreme_int,
    mean_bool,
    mean_float,
    mean_int,
    median,
    mode,
    rows,
)
from chunkwise.errors import InvalidArgumentError

__all__ = ["Reduction", "downsample_into", "open_reduction"]

Array: TypeAlias = npt.NDArray[Any]
Reduction: TypeAlias = Callable[[Array], Array]
"""Maps a block of shape ``(n0, e0, n1, e1, ...)`` to one value for each cell, of shape ``(n0, n1, ...)``."""

Read: TypeAlias = Callable[[IndexTransform, Array], object]

# 2³ means of 256³ uint16 take 22 ms of processor time with 64 and 256 KiB, 28 with 1 MiB, 32 with 16;
# with less, threads are busy passing the interpreter lock.
_PIECE_NBYTES = 1 << 18
# In sizes of a piece: smaller cells are held whole, which gives means of floats TensorStore's rounding, and
# saves the median another pass over the base.
_LARGE_CELL = 8


def open_reduction(method: str, dtype: DataType) -> Reduction:
    """Return the function that reduces blocks of `dtype`; raise if the method doesn't apply to it."""
    kind, memory = dtype.kind, dtype.memory_dtype
    if method == "mode":
        if memory.hasobject:
            return partial(_mode_objects, order=_json_order if kind == "json" else None)
        if kind in ("char", "byte", "raw", "struct"):
            return _mode_bytes
        return _in(_work_type(dtype), mode)
    if kind == "bool":
        by_name: dict[str, Reduction] = {
            "mean": mean_bool,
            "min": partial(extreme_int, which="min"),
            "max": partial(extreme_int, which="max"),
            "median": median,
        }
        return by_name[method]
    work = _work_type(dtype)
    if method == "mean" and kind in ("float", "complex"):
        return lambda block: mean_float(block, work)
    if method == "mean" and kind == "int":
        return _in(work, mean_int)
    if method == "median" and kind in ("int", "float"):
        return _in(work, median)
    if method in ("min", "max") and kind in ("int", "float"):
        extreme: Reduction = partial(
            extreme_float if kind == "float" else extreme_int, which="min" if method == "min" else "max"
        )
        return _in(work, extreme)
    raise InvalidArgumentError(f'Downsample method "{method}" does not support data type "{dtype.name}"')


def downsample_into(
    transform: IndexTransform,
    out: Array,
    *,
    factors: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    chunk: Sequence[int],
    dtype: np.dtype[Any],
    read: Read,
    reduce: Reduction,
    accumulate: Callable[[], Accumulator] | None,
    pool: Pool,
) -> Future[Array]:
    """Fill `out` with the part of a downsampled array that `transform` selects; return a future of `out`."""
    # Each worker holds one piece of the base (1 MiB, one chunk or one cell, whichever is largest) and memory
    # for reducing it, about as much again for the median and the mode.  A cell of more than 8 MiB is
    # processed piece by piece if `accumulate` allows it.  ``read(transform, array)`` waits for the base.
    n_elements = max(1, _PIECE_NBYTES // max(1, dtype.itemsize))
    plan = plan_downsample(transform, factors, lower, upper, chunk=chunk, n_elements=n_elements)
    view = plan.layout.view(out)

    def open_worker(stop: Stop) -> Callable[[CellPiece], None]:
        scratch = np.empty(0, dtype)

        def work(piece: CellPiece) -> None:
            nonlocal scratch
            if stop:
                return
            request = piece.request()
            if accumulate is not None and request.size > _LARGE_CELL * n_elements:
                cell = piece.single()
                if cell is not None:
                    piece.put(view, _large_cell(cell, accumulate()))
                    return
            if scratch.size < request.size:
                scratch = np.empty(request.size, dtype)
            values = scratch[: request.size].reshape(request.input_shape)
            read(request, values)
            with np.errstate(all="ignore"):
                piece.put(view, reduce(piece.block(values)).astype(out.dtype, copy=False))

        return work

    def _large_cell(cell: IndexDomain, accumulator: Accumulator) -> Array:
        with np.errstate(all="ignore"):
            wanted = True
            while wanted:
                for box in boxes(cell.inclusive_min, cell.exclusive_max, chunk, n_elements):
                    domain = IndexDomain(
                        inclusive_min=[s.start for s in box], exclusive_max=[s.stop for s in box]
                    )
                    values = np.empty(domain.shape, dtype)
                    read(IndexTransform.identity(domain), values)
                    accumulator.add(values)
                wanted = accumulator.again()
            return np.full((1,) * cell.rank, accumulator.result()).astype(out.dtype)

    def finish() -> Array:
        plan.layout.broadcast(out)
        return out

    inline = plan.n_elements <= n_elements and not in_event_loop()  # one piece
    return pool.run(plan.pieces, open_worker, finish, n_workers=pool.n_workers, inline=inline)


def _work_type(dtype: DataType) -> np.dtype[Any]:
    """Return the NumPy type for computing; types that NumPy is slow with, or lacks, get a wider one."""
    memory = dtype.memory_dtype
    if dtype.kind == "float" and memory.itemsize < 4:
        return np.dtype(np.float32)
    if dtype.kind == "int" and memory.kind not in "iu":
        return np.dtype(np.int8)
    return memory


def _in(work: np.dtype[Any], reduce: Reduction) -> Reduction:
    return lambda block: reduce(block.astype(work, copy=False))


def _mode_bytes(block: Array) -> Array:
    """Return the mode of bytes elements, which are ordered as bytes."""
    bits = np.ascontiguousarray(block).view(f"V{block.dtype.itemsize}").reshape(block.shape)
    known, codes = np.unique(bits, return_inverse=True)
    chosen: Array = known[mode(codes.reshape(block.shape))]
    return chosen.view(block.dtype)


def _mode_objects(block: Array, order: Callable[[Any], Any] | None) -> Array:
    """Return the mode of objects, compared one by one in Python; of equal ones the last."""
    cells = rows(block)
    out = np.empty(cells.shape[:-1], object)
    for at in np.ndindex(*out.shape):
        elements = {}
        keys = []
        for element in cells[at]:
            key = element if order is None else order(element)
            keys.append(key)
            elements[key] = element
        counts = Counter(keys)
        most = max(counts.values())
        out[at] = elements[min(key for key, n in counts.items() if n == most)]
    return out


def _json_order(value: JSON) -> Any:
    """Return a hashable key that orders JSON values as in TensorStore, and is equal for equal JSON."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 2, value
    if isinstance(value, dict):
        return 3, tuple(sorted((key, _json_order(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return 4, tuple(map(_json_order, value))
    return 5, value
