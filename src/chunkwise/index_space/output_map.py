"""How one output index of a transform depends on its input indices."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from chunkwise.errors import OutOfBoundsError
from chunkwise.index_space.dim import Dim
from chunkwise.index_space.interval import INF, UPPER, format_bounds

__all__ = [
    "IndexArray",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "array_map",
    "constant_map",
    "format_array",
    "single_map",
]

IndexArray = npt.NDArray[np.int64]

_SUMMARY_SIZE = 1000
_EDGE = 3


class OutputIndexMethod(enum.Enum):
    """Kind of an output index map."""

    constant = 0
    single_input_dimension = 1
    array = 2

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


def format_array(array: IndexArray) -> str:
    """Return TensorStore's text of an array: ``{{1, 2}, {3, 4}}``, shortened beyond 1000 elements."""
    return _format(array, array.size > _SUMMARY_SIZE)


def _format(array: IndexArray, shorten: bool) -> str:
    if array.ndim == 0:
        return str(int(array))
    if shorten and len(array) > 2 * _EDGE:
        head = [_format(x, shorten) for x in array[:_EDGE]]
        tail = [_format(x, shorten) for x in array[-_EDGE:]]
        return f"{{{', '.join([*head, '...', *tail])}}}"
    return f"{{{', '.join([_format(x, shorten) for x in array])}}}"


def _int64(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"OutputIndexMap: {name} must be an integer, not {value!r}") from None
    if not -(2**63) <= number < 2**63:
        raise TypeError(f"OutputIndexMap: {name} must fit 64 bits, not {number}")
    return number


def _index_array(value: Any) -> IndexArray:
    array = np.asarray(value)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or not np.can_cast(array.dtype, np.int64, "safe"):
        raise TypeError(f"OutputIndexMap: index_array must hold integers, not {array.dtype}")
    array = np.array(array, np.int64)
    array.setflags(write=False)
    return array


class OutputIndexMap:
    """One of three formulas for an output index.

    ``OutputIndexMap(offset)`` is constant, ``OutputIndexMap(input_dimension=d, offset=0, stride=1)`` is
    ``offset + stride * x[d]`` and ``OutputIndexMap(index_array, offset=0, stride=1, index_range=Dim())``
    is ``offset + stride * index_array[x]``, where an array element outside `index_range` is an error when
    it is used.  A positional integer that comes with a stride, or with an offset, is the dimension.

    Raises
    ------
    TypeError
        If the arguments don't go together or are not integers.
    """

    __slots__ = ("_array", "_dim", "_offset", "_range", "_stride")

    _offset: int
    _stride: int
    _dim: int | None
    _array: IndexArray | None
    _range: tuple[int, int]

    def __init__(
        self,
        *args: Any,
        offset: Any = None,
        stride: Any = None,
        input_dimension: Any = None,
        index_array: Any = None,
        index_range: Dim | None = None,
    ) -> None:
        if len(args) > 4:
            raise TypeError(f"OutputIndexMap takes at most 4 positional arguments, not {len(args)}")
        if args and (input_dimension is not None or index_array is not None):
            raise TypeError("OutputIndexMap: source given twice")
        if args:
            source, *rest = args
            for name, value, twice in zip(
                ("offset", "stride", "index_range"), rest, (offset, stride, index_range), strict=False
            ):
                if twice is not None:
                    raise TypeError(f"OutputIndexMap: {name} given twice")
                offset, stride, index_range = (
                    value if name == "offset" else offset,
                    value if name == "stride" else stride,
                    value if name == "index_range" else index_range,
                )
            if not _is_integer(source):
                index_array = source
            elif offset is None and stride is None and index_range is None:
                offset = source
            else:
                input_dimension = source
        if input_dimension is not None and index_array is not None:
            raise TypeError("OutputIndexMap: only one of input_dimension and index_array can be given")
        if stride is not None and input_dimension is None and index_array is None:
            raise TypeError("OutputIndexMap: stride needs input_dimension or index_array")
        if index_range is not None and (index_array is None or not isinstance(index_range, Dim)):
            raise TypeError("OutputIndexMap: index_range must be a Dim and needs index_array")
        self._offset = 0 if offset is None else _int64("offset", offset)
        self._stride = 1 if stride is None else _int64("stride", stride)
        self._dim = None if input_dimension is None else _int64("input_dimension", input_dimension)
        self._array = None if index_array is None else _index_array(index_array)
        self._range = (-INF, UPPER)
        if index_range is not None:
            self._range = (index_range.inclusive_min, index_range.exclusive_max)

    @property
    def method(self) -> OutputIndexMethod:
        """Which of the formulas it is."""
        if self._array is not None:
            return OutputIndexMethod.array
        return OutputIndexMethod.constant if self._dim is None else OutputIndexMethod.single_input_dimension

    @property
    def offset(self) -> int:
        """Offset."""
        return self._offset

    @property
    def stride(self) -> int | None:
        """Factor of the input index or array element; None for a constant map."""
        return None if self._dim is None and self._array is None else self._stride

    @property
    def input_dimension(self) -> int | None:
        """Input dimension; None unless the method is ``single_input_dimension``."""
        return self._dim

    @property
    def index_array(self) -> IndexArray | None:
        """Read-only int64 array of the rank of the input domain, or None.

        Each extent is that of the domain, or 1 where the output does not depend on the dimension.
        """
        return self._array

    @property
    def index_range(self) -> Dim | None:
        """Explicit interval that elements of the array must lie in, or None."""
        return None if self._array is None else Dim._make((*self._range, False, False))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputIndexMap):
            return NotImplemented
        if self._array is None or other._array is None:
            if self._array is not other._array or self._dim != other._dim or self._offset != other._offset:
                return False
            return self._dim is None or self._stride == other._stride
        return (
            self._offset == other._offset
            and self._stride == other._stride
            and self._range == other._range
            and np.array_equal(self._array, other._array)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        index_range = (-INF, UPPER) if self._array is None else self._range
        return _unpickle, (self._offset, self._stride, self._dim, self._array, index_range)

    def __repr__(self) -> str:
        if self._array is not None:
            return (
                f"OutputIndexMap(offset={self._offset}, stride={self._stride}, "
                f"index_array={format_array(self._array)}, index_range={format_bounds(*self._range)})"
            )
        if self._dim is None:
            return f"OutputIndexMap(offset={self._offset})"
        return f"OutputIndexMap(offset={self._offset}, stride={self._stride}, input_dimension={self._dim})"


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def constant_map(offset: int, _new: Any = OutputIndexMap.__new__) -> OutputIndexMap:
    """Return the map to `offset`."""
    m: OutputIndexMap = _new(OutputIndexMap)
    m._offset = offset
    m._stride = 0
    m._dim = m._array = None
    return m


def single_map(offset: int, stride: int, dim: int, _new: Any = OutputIndexMap.__new__) -> OutputIndexMap:
    """Return the map to ``offset + stride * x[dim]``."""
    m: OutputIndexMap = _new(OutputIndexMap)
    m._offset = offset
    m._stride = stride
    m._dim = dim
    m._array = None
    return m


def array_map(offset: int, stride: int, array: IndexArray, index_range: tuple[int, int]) -> OutputIndexMap:
    """Return the map to ``offset + stride * array[x]``; the array becomes read-only."""
    m: OutputIndexMap = OutputIndexMap.__new__(OutputIndexMap)
    array.setflags(write=False)
    m._offset = offset
    m._stride = stride
    m._dim = None
    m._array = array
    m._range = index_range
    return m


def _unpickle(
    offset: int, stride: int, dim: int | None, array: IndexArray | None, index_range: tuple[int, int]
) -> OutputIndexMap:
    if array is not None:
        return array_map(offset, stride, array, index_range)
    return constant_map(offset) if dim is None else single_map(offset, stride, dim)


class OutputIndexMaps(Sequence[OutputIndexMap]):
    """The output index maps of a transform, one per output dimension."""

    __slots__ = ("_maps",)

    def __init__(self, maps: tuple[OutputIndexMap, ...]) -> None:
        self._maps = maps

    @property
    def rank(self) -> int:
        """Number of output dimensions."""
        return len(self._maps)

    def __len__(self) -> int:
        return len(self._maps)

    @overload
    def __getitem__(self, index: int) -> OutputIndexMap: ...
    @overload
    def __getitem__(self, index: slice) -> list[OutputIndexMap]: ...

    def __getitem__(self, index: int | slice) -> OutputIndexMap | list[OutputIndexMap]:
        if isinstance(index, slice):
            return list(self._maps[index])
        i, n = operator.index(index), len(self._maps)
        if not -n <= i < n:
            raise OutOfBoundsError(f"Index {i} is outside valid range [{-n}, {n})")
        return self._maps[i]

    def __iter__(self) -> Iterator[OutputIndexMap]:
        return iter(self._maps)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OutputIndexMaps):
            return self._maps == other._maps
        if isinstance(other, Sequence):
            return list(self._maps) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputIndexMaps, (self._maps,)

    def __repr__(self) -> str:
        return repr(list(self._maps))
