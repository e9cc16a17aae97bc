"""``array``: a NumPy array as a TensorStore."""

from __future__ import annotations

from typing import Any

import numpy as np

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.memory_array import MemoryArray
from chunkwise.core.base.arguments import as_flag
from chunkwise.core.driver.array.spec import ArraySpec
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.dtypes.tensor import elements_of
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.schema import Schema

__all__ = ["array"]


def array(
    array: Any,
    dtype: DTypeLike | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
    write: bool | None = None,
) -> TensorStore:
    """Return a view of a NumPy array, sharing its memory if possible.

    Parameters
    ----------
    array : array_like
        A NumPy array of type `dtype` in native byte order is shared: changes are seen on both sides.
        Anything else is converted.
    dtype : dtype_like, optional
        Data type of the elements.
    context : Context, optional
        Source of shared resources.
    copy : bool, optional
        True: always copy.  False: fail if a copy can't be avoided.
    write : bool, optional
        False: make it read-only.  True: copy a read-only array.

    Returns
    -------
    TensorStore
        An array with the shape of `array`.

    Raises
    ------
    ValueError
        If the type of `array` is not a data type, or `copy` is false and a copy is needed.
    TypeError
        If an array can't be safely converted to `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> a = np.arange(5)
    >>> chunkwise.array(a)[1:3] = 7
    >>> a
    array([0, 7, 7, 3, 4])
    """
    if isinstance(array, TensorStore):
        array = array.read().result()
    array = elements_of(array)
    copy = None if copy is None else as_flag(copy, "copy")
    write = None if write is None else as_flag(write, "write")
    given = array if isinstance(array, np.ndarray) else None
    if dtype is not None:
        element_type = DataType(dtype)
    elif given is None and not hasattr(type(array), "__array__"):
        array = np.array(array)
        element_type = _natural(array)
    else:
        array = np.asanyarray(array)
        element_type = _natural(array)
    values = as_array(array, element_type)
    shared = given is not None and values is given
    if copy is False and (not shared or (write and not values.flags.writeable)):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if copy or (write and not values.flags.writeable):
        values = values.copy(order="K")
    writable = values.flags.writeable if write is None else write
    spec = ArraySpec(schema=Schema(dtype=element_type, rank=values.ndim), array=values).bind(
        as_context(context)
    )
    opened = MemoryArray(spec, writable=writable)
    return TensorStore._make(opened, IndexTransform.identity(opened.domain))


def _natural(array: np.ndarray[Any, Any]) -> DataType:
    return DataType("json") if array.dtype.kind == "O" else DataType(array.dtype)
