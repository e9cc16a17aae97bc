"""Views of an array with other elements: ``cast``, ``downsample``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from chunkwise.core.api.held import held_array
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.base_array import Base
from chunkwise.core.arrays.downsample import DownsampleArray
from chunkwise.core.base.arguments import as_int64, open_first
from chunkwise.core.driver.adapters import CastSpec, DownsampleSpec, check_factors, check_method, constrained
from chunkwise.core.dtypes.conversion import cast_converters
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec

__all__ = ["cast", "downsample"]

S = TypeVar("S", TensorStore, Spec)


def cast(base: S, dtype: DTypeLike) -> S:
    """Return a view that converts elements in reads and writes.

    Parameters
    ----------
    base : TensorStore or Spec
        The result is of the same kind.
    dtype : dtype_like

    Returns
    -------
    TensorStore or Spec
        With the domain of `base`.

    Raises
    ------
    ValueError
        If elements can't be converted in either direction.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> chunkwise.cast(chunkwise.array(np.array([1.5, -2.5])), "int32").read().result()
    array([ 1, -2], dtype=int32)
    """
    base = _held(base)
    target = DataType(dtype)
    if isinstance(base, Spec):
        if base.dtype is not None:
            cast_converters(base.dtype, target)
        spec = CastSpec(schema=Schema(dtype=target), base=Spec._of(base._driver, None))
        transform = base.transform
        if transform is None:
            return Spec._of(spec, None)
        if base._driver.domain is None:
            return Spec._of(
                CastSpec(schema=Schema(dtype=target), base=base), IndexTransform.identity(transform.domain)
            )
        return Spec._of(spec, transform)
    if not isinstance(base, TensorStore):
        raise TypeError(f"cast takes a TensorStore or a Spec, not {_called(base)}")
    return base.astype(target)


def downsample(base: S, downsample_factors: Sequence[int], method: str) -> S:
    """Return a read-only view; each element stands for a cell of `base`.

    Element ``i`` of a dimension stands for the existing part of ``[i * f, (i + 1) * f)``.

    Parameters
    ----------
    base : TensorStore or Spec
        The result is of the same kind.
    downsample_factors : sequence of int
        Size of a cell in each dimension.
    method : {"stride", "mean", "min", "max", "median", "mode"}
        ``stride`` takes the first element, ``mean`` rounds half to even, ``median`` takes the lower of two
        middle elements, and ``mode`` the least of the most frequent.

    Returns
    -------
    TensorStore or Spec
        A dimension of `n` elements that begins at 0 has ``ceil(n / f)`` cells.

    Raises
    ------
    ValueError
        If the method doesn't apply to the data type, a factor is not positive, or the number of factors is
        not the rank.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> chunkwise.downsample(chunkwise.array(np.arange(10)), [4], "mean").read().result()
    array([2, 6, 8])
    """
    base = _held(base)
    if not isinstance(base, TensorStore | Spec):
        raise TypeError(
            f"downsample takes a TensorStore or a Spec, not {type(base).__name__}{open_first(base)}"
        )
    factors = check_factors([as_int64(f, "downsample_factors") for f in downsample_factors], base.rank)
    check_method(method)
    schema = Schema(rank=len(factors))
    if isinstance(base, Spec):
        spec = DownsampleSpec(schema=schema, base=constrained(base, schema), factors=factors, method=method)
        domain = spec.domain
        return Spec._of(spec, None if domain is None else IndexTransform.identity(domain))
    array = DownsampleArray(Base(base._array, base._transform), factors, method, base._array.pool)
    return TensorStore._make(array, IndexTransform.identity(array.domain), base._transaction)


def _held(base: Any) -> Any:
    """Return an array of another library as one of this one; others as they are."""
    held = None if isinstance(base, TensorStore | Spec) else held_array(base)
    return base if held is None else held


def _called(base: object) -> str:
    return type(base).__name__ + open_first(base)
