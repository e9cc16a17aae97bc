"""The type of an array's elements, by name: ``dtype("uint16")``.

All of TensorStore's types are here under its names.  NumPy types of fixed size that TensorStore lacks are
data types too: ``S5`` (null-terminated bytes), ``U7`` (text), ``V5`` (raw bytes), ``datetime64[ns]``,
``timedelta64[10ms]`` and structured types.
"""

from __future__ import annotations

import re
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import plain_json
from chunkwise.core.dtypes.extension import Extension, extension_of, name_of_extension
from chunkwise.core.dtypes.names import NAMED, Kind, name_of, numpy_of, struct_of
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError, nearest

__all__ = ["NOT_A_TIME", "WITHOUT_UNIT", "DTypeLike", "DataType", "counts", "dtype", "dtypes"]

NOT_A_TIME = -(2**63)
WITHOUT_UNIT = ("datetime64", "timedelta64")

DTypeLike: TypeAlias = "DataType | str | type | np.dtype[Any] | list[Any]"
"""A data type, its name, a NumPy type, a scalar type, or the list of fields of a structured type."""

_PYTHON = {
    bool: "bool",
    int: "int64",
    float: "float64",
    complex: "complex128",
    bytes: "string",
    str: "ustring",
}
# NumPy would take these for float64, int64 and so on, with a warning.
_ABSTRACT = (
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
    np.flexible,
    np.character,
)
# NumPy's short names; byte order is ignored, as it is for NumPy types.
_NUMPY_NAME = r"(?a)[<>=|]?([biufcSUV][1-9]\d*|\?|[mM]8\[\w+\])"
_SCALARS: dict[Kind, type] = {"string": bytes, "ustring": str, "json": np.object_}


class DataType:
    """A data type.

    Parameters
    ----------
    dtype : str, type, numpy.dtype, list or DataType
        A name (``"uint16"``, ``"S5"``, ``"datetime64[ns]"``); a NumPy type in any byte order; ``int``,
        ``float``, ``complex``, ``bool``, ``bytes`` or ``str``; or the fields of a structured type as a list
        of ``[name, type]`` or ``[name, type, shape]``.

    Raises
    ------
    ValueError
        If no data type has that name or corresponds to that NumPy type.
    TypeError
        If `dtype` is none of the above.

    Notes
    -----
    There is one object per type.  In memory, elements are always in native byte order, and structured
    types have no padding.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> chunkwise.DataType("uint16")
    dtype("uint16")
    >>> chunkwise.DataType(np.dtype(">f4")) == "float32"
    True
    >>> chunkwise.DataType("datetime64[ns]")("2020-01-01")
    np.datetime64('2020-01-01T00:00:00.000000000')
    """

    __slots__ = ("__weakref__", "_extension", "_kind", "_memory", "_name")
    _extension: Extension | None
    _kind: Kind
    _memory: np.dtype[Any]
    _name: str

    def __new__(cls, dtype: Any) -> Self:
        if isinstance(dtype, cls):
            return dtype
        name = _name_for(dtype)
        found = _INTERNED.get(name)
        if found is None:
            kind_and_memory = numpy_of(name)
            if kind_and_memory is None:
                extension = extension_of(name)
                if extension is None and re.fullmatch(_NUMPY_NAME, name):
                    with suppress(TypeError):
                        return cls(np.dtype(name))
                if extension is None:
                    raise UnknownExtensionError(_unknown(name))
                return cls.of_extension(extension)
            kind, memory = kind_and_memory
            # A name has several spellings ("datetime64[1ms]"); the NumPy type's spelling is kept.
            if name not in NAMED and (canonical := name_of(memory)) is not None:
                name = canonical[0]
            found = _INTERNED.setdefault(name, cls._make(name, kind, memory))
        return found  # type: ignore[return-value]

    @classmethod
    def of_extension(cls, extension: Extension) -> Self:
        """Return the data type that another package describes.

        Parameters
        ----------
        extension : Extension
            Its name, memory type, fill value and conversions.
        """
        name = name_of_extension(extension)
        made = cls._make(name, "extension", extension.memory_dtype, extension)
        return _INTERNED.setdefault(name, made)  # type: ignore[return-value]

    @classmethod
    def _make(cls, name: str, kind: Kind, memory: np.dtype[Any], extension: Extension | None = None) -> Self:
        self = object.__new__(cls)
        self._name, self._kind, self._memory, self._extension = name, kind, memory, extension
        return self

    @property
    def name(self) -> str:
        """Name of the type; for a structured type the JSON list of its fields."""
        return self._name

    @property
    def kind(self) -> Kind:
        """Family of the type."""
        return self._kind

    @property
    def extension(self) -> Extension | None:
        """Description of the type, if another package defines it."""
        return self._extension

    @property
    def memory_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory, with its size: ``S1`` for char and ``V1`` for byte."""
        return self._memory

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type as TensorStore reports it: without a size for char (``S``) and byte (``V``)."""
        return np.dtype(self._memory.kind) if self._kind in ("char", "byte") else self._memory

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of elements in memory: where ``numpy.dtype(x)`` looks, so it takes a data type."""
        return self._memory

    @property
    def itemsize(self) -> int:
        """Size of an element in memory, in bytes; for string, ustring and json, the size of a reference."""
        return self._memory.itemsize

    @property
    def type(self) -> type:
        """Type of a scalar: bytes, str and ``np.object_`` for string, ustring and json."""
        return _SCALARS.get(self._kind, self._memory.type)

    def to_json(self) -> str:
        """Return the name, which is the JSON form of a data type."""
        return self._name

    def zero(self) -> npt.NDArray[Any]:
        """Return the element used without a fill value, with shape ``()``.

        Zero, false, empty, null, or not-a-time for ``datetime64`` and ``timedelta64``.
        """
        out = np.zeros((), self._memory)
        if self._kind == "datetime":
            out.view(np.int64)[()] = NOT_A_TIME
        elif self._memory.hasobject:
            out[()] = {"string": b"", "ustring": "", "json": None}[self._kind]
        return out

    def __call__(self, value: Any, /) -> Any:
        """Return `value` as a scalar of this type, or as an array if it is array-like."""
        if self._kind == "string":
            return bytes(value)
        if self._kind == "ustring":
            return str(value)
        if self._kind == "json":
            return plain_json(value)
        if self._name in WITHOUT_UNIT:
            return counts(value, self)[()]
        return np.array(value, self.numpy_dtype)[()]

    def __repr__(self) -> str:
        return f"dtype({self._name})" if self._name[0] in "[{" else f'dtype("{self._name}")'

    def __eq__(self, other: object) -> bool:
        """Return True if `other` is, or names, the same type; None and objects are unequal to every type.

        Raises
        ------
        ValueError
            If no data type corresponds to a name or a NumPy type.
        TypeError
            If `other` is anything else that is not a data type.
        """
        if isinstance(other, DataType):
            return self is other
        if other is object or (isinstance(other, np.dtype) and other.hasobject):
            return False  # libraries ask whether elements are objects
        return NotImplemented if other is None else self is DataType(other)

    def __hash__(self) -> int:
        return hash(self._name)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return DataType, (self._name,)


def counts(value: Any, dtype: DataType) -> npt.NDArray[Any]:
    """Return `value` as times without a unit, from the same, integers, None and ``"NaT"``."""
    # NumPy takes other times too, and drops or guesses their unit without an error.
    memory, is_array = dtype.memory_dtype, hasattr(value, "dtype")
    given = np.asarray(value) if is_array else np.array(value, object)
    if given.dtype.kind in "OUS" and given.size:
        flat = [NOT_A_TIME if x is None or x in ("NaT", b"NaT") else x for x in given.ravel().tolist()]
        given = np.array(flat).reshape(given.shape)
    is_count = np.can_cast(given.dtype, np.int64) and not (is_array and memory.kind == "M")
    if given.size and not is_count and given.dtype.newbyteorder("=") != memory:
        received = given.dtype.name if is_array else f"{value!r:.80}"
        raise InvalidArgumentError(
            f'Expected integers or "NaT" for {dtype.name}, which has no unit, but received: {received}; '
            f"a data type with a unit is {dtype.name}[s]"
        )
    return given.astype(np.int64).view(memory)


def _name_for(dtype: object) -> str:
    if isinstance(dtype, str):
        return dtype
    if isinstance(dtype, list):
        try:
            dtype = struct_of(dtype)
        except (TypeError, ValueError) as e:
            raise InvalidArgumentError(f"Not the fields of a structured data type: {dtype!r}: {e}") from None
    if isinstance(dtype, type):
        if dtype in _PYTHON:
            return _PYTHON[dtype]
        if dtype in _ABSTRACT:
            raise TypeError(f"{dtype!r} is an abstract NumPy type and no data type")
        dtype = np.dtype(dtype)
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"A data type is a name, a NumPy type or a scalar type, not {dtype!r}")
    found = name_of(dtype)
    if found is None:
        is_sized = not (dtype.hasobject or dtype.kind == "U")
        hint = "" if is_sized else '; give the dtype: "ustring" for text, "string" for bytes'
        raise InvalidArgumentError(f"No TensorStore data type corresponding to NumPy dtype: {dtype!r}{hint}")
    return found[0]


def _unknown(name: str) -> str:
    return f'No TensorStore data type with name: "{name}"; {nearest(name, NAMED)}'.removesuffix("; ")


_INTERNED: dict[str, DataType] = {
    name: DataType._make(name, kind, memory) for name, (kind, memory) in NAMED.items()
}

dtype = DataType
dtypes: MappingProxyType[str, DataType] = MappingProxyType(dict(_INTERNED))
"""All types with a fixed name, by that name."""
