"""``complex_float16`` and the like: complex numbers of types for which NumPy has no complex type.

In memory, a record of ``real`` and ``imag``.  In Zarr v3, a name; the fill value is a list of both parts,
each in the form of the floating-point type.  ``complex_float32`` and ``complex_float64`` are other names of
``complex64`` and ``complex128``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, parse_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.floating import parse_float, print_float
from chunkwise.core.dtypes.names import ZARR3

__all__ = [
    "ComplexBfloat16",
    "ComplexFloat4E2m1fn",
    "ComplexFloat6E2m3fn",
    "ComplexFloat6E3m2fn",
    "ComplexFloat8E3m4",
    "ComplexFloat8E4m3",
    "ComplexFloat8E4m3b11fnuz",
    "ComplexFloat8E4m3fnuz",
    "ComplexFloat8E5m2",
    "ComplexFloat8E5m2fnuz",
    "ComplexFloat8E8m0fnu",
    "ComplexFloat16",
]


class _ComplexPair:
    """A complex number whose parts are of the type `part`."""

    name: ClassVar[str]
    part: ClassVar[DataType]
    memory_dtype: ClassVar[np.dtype[Any]]
    fill_rank: ClassVar[int] = 1

    def __init_subclass__(cls, part: str) -> None:
        cls.name, cls.part = f"complex_{part}", DataType(part)
        cls.memory_dtype = np.dtype([(field, cls.part.memory_dtype) for field in ("real", "imag")])

    @classmethod
    def parse(cls, configuration: Mapping[str, JSON]) -> Self:
        Members(configuration).finish()
        return cls()

    def to_json(self) -> dict[str, JSON]:
        return {}

    def parse_fill_value(self, value: JSON) -> npt.ArrayLike:
        real, imag = parse_array(value, lambda v: parse_float(v, self.part, ZARR3), 2)
        return np.array((real[()], imag[()]), self.memory_dtype)

    def print_fill_value(self, fill: npt.NDArray[Any]) -> JSON:
        return [print_float(fill[field], self.part, ZARR3) for field in ("real", "imag")]

    def from_numbers(self, numbers: npt.NDArray[Any], casting: Literal["safe", "unsafe"]) -> npt.NDArray[Any]:
        out = np.empty(numbers.shape, self.memory_dtype)
        parts = (numbers.real, numbers.imag) if numbers.dtype.kind == "c" else (numbers, np.zeros((), bool))
        for field, part in zip(("real", "imag"), parts, strict=True):
            out[field] = part.astype(self.part.memory_dtype, casting=casting)
        return out


class ComplexBfloat16(_ComplexPair, part="bfloat16"): ...


class ComplexFloat4E2m1fn(_ComplexPair, part="float4_e2m1fn"): ...


class ComplexFloat6E2m3fn(_ComplexPair, part="float6_e2m3fn"): ...


class ComplexFloat6E3m2fn(_ComplexPair, part="float6_e3m2fn"): ...


class ComplexFloat8E3m4(_ComplexPair, part="float8_e3m4"): ...


class ComplexFloat8E4m3(_ComplexPair, part="float8_e4m3"): ...


class ComplexFloat8E4m3b11fnuz(_ComplexPair, part="float8_e4m3b11fnuz"): ...


class ComplexFloat8E4m3fnuz(_ComplexPair, part="float8_e4m3fnuz"): ...


class ComplexFloat8E5m2(_ComplexPair, part="float8_e5m2"): ...


class ComplexFloat8E5m2fnuz(_ComplexPair, part="float8_e5m2fnuz"): ...


class ComplexFloat8E8m0fnu(_ComplexPair, part="float8_e8m0fnu"): ...


class ComplexFloat16(_ComplexPair, part="float16"): ...
