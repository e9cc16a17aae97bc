"""``cast``: a view of an array with another data type."""

from __future__ import annotations

from typing import TypeVar

from chunkwise.api.tensorstore import TensorStore
from chunkwise.driver.cast.spec import CastSpec
from chunkwise.dtypes.conversion import cast_converters
from chunkwise.dtypes.data_type import DataType, DTypeLike
from chunkwise.index_space import IndexTransform
from chunkwise.spec.schema import Schema
from chunkwise.spec.spec import Spec

__all__ = ["cast"]

S = TypeVar("S", TensorStore, Spec)


def cast(base: S, dtype: DTypeLike) -> S:
    """Return a view that converts elements when it is read and written.

    Parameters
    ----------
    base : TensorStore or Spec
        The same kind is returned.
    dtype : dtype_like

    Raises
    ------
    ValueError
        If elements convert in neither direction.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> chunkwise.cast(chunkwise.array(np.array([1.5, -2.5])), "int32").read().result()
    array([ 1, -2], dtype=int32)
    """
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
        raise TypeError(f"cast takes a TensorStore or a Spec, not {type(base).__name__}")
    return base.astype(target)
