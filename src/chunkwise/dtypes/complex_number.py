"""``complex64`` and ``complex128``: real part, then imaginary part.

Fill value: a list of both, each as for the floating-point type of half the size.  In Zarr v2, base64 of the
stored bytes is read as well, as TensorStore does, and a number or word, the real part, as GDAL writes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, parse_array
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.fixed import decode_base64
from chunkwise.dtypes.floating import WORDS, parse_float, print_float
from chunkwise.dtypes.names import Notation

__all__ = ["component_of", "parse_complex", "print_complex"]

_COMPONENT = {"complex64": DataType("float32"), "complex128": DataType("float64")}


def component_of(dtype: DataType) -> DataType:
    """Return the type of the real part."""
    return _COMPONENT[dtype.name]


def parse_complex(
    value: JSON, dtype: DataType, notation: Notation, stored: np.dtype[Any] | None = None
) -> npt.NDArray[Any]:
    """Return a fill value; `stored` tells the byte order of its base64 form."""
    part = component_of(dtype)
    if notation == "zarr2" and isinstance(value, str) and value not in WORDS:
        raw = decode_base64(value, dtype.itemsize, exact=True)
        return np.frombuffer(raw, stored or dtype.memory_dtype).astype(dtype.memory_dtype).reshape(())
    if notation == "zarr2" and not isinstance(value, list):
        value = [value, 0]
    pair = parse_array(value, lambda v: parse_float(v, part, notation), 2)
    return np.array(pair, part.memory_dtype).view(dtype.memory_dtype).reshape(())


def print_complex(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value."""
    part = component_of(dtype)
    real, imag = np.ascontiguousarray(fill).reshape(1).view(part.memory_dtype)
    return [print_float(np.asarray(real), part, notation), print_float(np.asarray(imag), part, notation)]
