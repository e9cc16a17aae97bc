"""Binary floating-point numbers, and complex numbers, which are two of them.

Numbers below 8 bits take one byte each.

Fill value in Zarr v3 ("Data Types", "Permitted fill values"): a number, ``"Infinity"``, ``"-Infinity"``,
``"NaN"`` for the one NaN with sign 0 and only the first bit of the mantissa set, and ``"0x7fc00001"``, the
bits of any value, which is the only form for other NaNs.  In types without infinity, ``"NaN"`` is the NaN
that conversion gives.

In Zarr v2 ("Fill value encoding"): a number or one of the three words; TensorStore also reads decimal
strings, and writes ``float4_e2m1fn`` as base64 of its byte.  The payload of a NaN can't be written there.

``complex64`` and ``complex128`` are the real part, then the imaginary part.  Fill value: a list of both, each
as for the floating-point type of half the size.  In Zarr v2, base64 of the stored bytes is read as well, as
TensorStore does, and a number or word, the real part, as GDAL writes it.

``complex_float16`` and the like, for which NumPy has no type: in memory, a record of ``real`` and ``imag``.
In Zarr v3, a name; the fill value is a list of both parts, each in the form of the floating-point type.
``complex_float32`` and ``complex_float64`` are other names of ``complex64`` and ``complex128``.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, parse_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fixed import decode_base64
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import ZARR3, Notation
from chunkwise.errors import SpecError

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
    "component_of",
    "parse_complex",
    "parse_float",
    "print_complex",
    "print_float",
    "read_float",
]

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_HEX = r"0x([0-9a-fA-F]+)"
_DECIMAL = r"(?a)\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"
_LOOSE = r"(?ai)\s*[+-]?(nan|inf|infinity)\s*"
_HEX_NUMBER = r"(?a)\s*[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?[0-9]+)?\s*"
_COMPONENT = {"complex64": DataType("float32"), "complex128": DataType("float64")}


def bits_type(dtype: DataType) -> str:
    """Return the unsigned integer type with the size of one element."""
    return f"u{dtype.itemsize}"


def canonical_nan(dtype: DataType) -> npt.NDArray[Any]:
    """Return the value of ``"NaN"``, which is not a NaN for types without one."""
    with np.errstate(all="ignore"):
        return np.array(math.nan).astype(dtype.memory_dtype)


def _rounded(value: float, dtype: DataType, said: JSON) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"):
        out = np.array(value).astype(dtype.memory_dtype)
    back = float(out)
    lost = math.isnan(back) != math.isnan(value) or (math.isinf(value) and back != value)
    if lost or (math.isfinite(value) and value != 0 and (back < 0) != (value < 0) and back != 0):
        raise SpecError(f"{dtype.name} has no value for {show(said) if said == said else 'NaN'}")
    return out


def read_float(value: JSON) -> float:
    """Return a number or string as TensorStore's JSON conversion reads it, or raise SpecError."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        if re.fullmatch(_DECIMAL, value) or re.fullmatch(_LOOSE, value):
            return float(value)
        if re.fullmatch(_HEX_NUMBER, value):
            return float.fromhex(value.strip())
    raise _expected("64-bit floating-point number", value)


def parse_float(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value of a floating-point type, or raise SpecError."""
    # Infinity and NaN are errors for types without them, and so are finite numbers that would become NaN.
    if notation.is_plain:
        with np.errstate(all="ignore"):
            return np.array(read_float(value)).astype(dtype.memory_dtype)
    if isinstance(value, str):
        return _from_string(value, dtype, notation)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected("floating-point number", value)
    if value == 0 and dtype.name == "float8_e8m0fnu":  # so TensorStore writes the least value, its default
        return np.zeros((), bits_type(dtype)).view(dtype.memory_dtype)
    return _rounded(read_float(value), dtype, value)


def _from_string(value: str, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    if value in _WORDS:
        return _rounded(_WORDS[value], dtype, value)
    if notation.has_bits:
        match = re.fullmatch(_HEX, value)
        if match is None or len(match[1]) > 2 * dtype.itemsize:
            raise _expected('"Infinity", "-Infinity", "NaN", or hex string', value)
        return np.array(int(match[1], 16), bits_type(dtype)).view(dtype.memory_dtype)
    if re.fullmatch(_DECIMAL, value):
        return _rounded(float(value), dtype, value)
    if dtype.itemsize == 1:
        try:
            raw = binascii.a2b_base64(value, strict_mode=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) == 1:
            return np.frombuffer(raw, dtype.memory_dtype)[0:1].reshape(()).copy()
    raise SpecError(f"Invalid floating-point value: {show(value)}")


def print_float(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value, in a form that every peer reads as exactly this value."""
    # In a schema it is always a number, even NaN or an infinity.
    value = float(fill)
    if notation.is_plain:
        return value
    if notation.has_stored_form and dtype.name == "float4_e2m1fn":
        return binascii.b2a_base64(fill.tobytes(), newline=False).decode()
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if notation.has_bits:
        # Peers disagree on the numbers that float8_e8m0fnu has, but agree on its bits.
        if dtype.name == "float8_e8m0fnu" and not math.isnan(value):
            return _hex(fill, dtype)
        if math.isnan(value) and fill.tobytes() != canonical_nan(dtype).tobytes():
            return _hex(fill, dtype)
    return "NaN" if math.isnan(value) else value


def _hex(fill: npt.NDArray[Any], dtype: DataType) -> str:
    return f"0x{int(fill.view(bits_type(dtype))):0{2 * dtype.itemsize}x}"


def _expected(what: str, value: JSON) -> SpecError:
    received = "but member is missing" if value is MISSING else f"but received: {show(value)}"
    return SpecError(f"Expected {what}, {received}")


def component_of(dtype: DataType) -> DataType:
    """Return the type of the real part."""
    return _COMPONENT[dtype.name]


def parse_complex(
    value: JSON, dtype: DataType, notation: Notation, stored: np.dtype[Any] | None = None
) -> npt.NDArray[Any]:
    """Return a fill value; `stored` tells the byte order of its base64 form."""
    part = component_of(dtype)
    if notation.has_stored_form and isinstance(value, str) and value not in _WORDS:
        raw = decode_base64(value, dtype.itemsize, exact=True)
        return np.frombuffer(raw, stored or dtype.memory_dtype).astype(dtype.memory_dtype).reshape(())
    if notation.has_stored_form and not isinstance(value, list):
        value = [value, 0]
    pair = parse_array(value, lambda v: parse_float(v, part, notation), 2)
    return np.array(pair, part.memory_dtype).view(dtype.memory_dtype).reshape(())


def print_complex(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value."""
    part = component_of(dtype)
    real, imag = np.ascontiguousarray(fill).reshape(1).view(part.memory_dtype)
    return [print_float(np.asarray(real), part, notation), print_float(np.asarray(imag), part, notation)]


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
