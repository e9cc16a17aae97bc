"""Output index maps: one output index of a transform as a function of its input indices."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, overload

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.arguments import as_int64, check_same_type
from chunkwise.core.index_space.dim import Dim
from chunkwise.core.index_space.interval import INF, UPPER, format_bounds
from chunkwise.errors import InvalidArgumentError, OutOfBoundsError

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

_UNSET: Any = object()
_SUMMARY_SIZE = 1000
_EDGE = 3


class OutputIndexMethod(enum.Enum):
    """Kind of an output index map.

    Examples
    --------
    >>> import chunkwise
    >>> transform = chunkwise.IndexTransform(input_shape=[4, 6])[1:3, ::2]
    >>> transform([2, 1])
    (2, 2)
    >>> transform.output[1].method, transform.output[1].stride
    (<OutputIndexMethod.single_input_dimension: 1>, 2)
    """

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        as_int64(value, "value")  # type: ignore[arg-type]
        raise InvalidArgumentError(f"{value} is the number of no kind of output index map")

    constant = 0
    single_input_dimension = 1
    array = 2

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __hash__(self) -> int:
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


def _index_array(value: Any) -> IndexArray:
    array = np.asarray(value)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu" or not np.can_cast(array.dtype, np.int64, "safe"):
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

    Examples
    --------
    >>> import chunkwise
    >>> transform = chunkwise.IndexTransform(input_shape=[4, 6])[1:3, ::2]
    >>> transform([2, 1])
    (2, 2)
    >>> transform.output[1].method, transform.output[1].stride
    (<OutputIndexMethod.single_input_dimension: 1>, 2)
    """

    __slots__ = ("__weakref__", "_array", "_dim", "_offset", "_range", "_stride")

    _offset: int
    _stride: int
    _dim: int | None
    _array: IndexArray | None
    _range: tuple[int, int]

    def __init__(
        self,
        *args: Any,
        offset: int = _UNSET,
        stride: int = _UNSET,
        input_dimension: int = _UNSET,
        index_array: npt.ArrayLike = _UNSET,
        index_range: Dim = _UNSET,
    ) -> None:
        if len(args) > 4:
            raise TypeError(f"OutputIndexMap takes at most 4 positional arguments, not {len(args)}")
        given: dict[str, Any] = {
            "offset": offset,
            "stride": stride,
            "index_range": index_range,
            "input_dimension": input_dimension,
            "index_array": index_array,
        }
        given = {name: value for name, value in given.items() if value is not _UNSET}
        if args:
            if "input_dimension" in given or "index_array" in given:
                raise TypeError("OutputIndexMap: source given twice")
            for name, value in zip(("offset", "stride", "index_range"), args[1:], strict=False):
                if name in given:
                    raise TypeError(f"OutputIndexMap: {name} given twice")
                given[name] = value
            if not _is_integer(args[0]):
                given["index_array"] = args[0]
            elif given:
                given["input_dimension"] = args[0]
            else:
                given["offset"] = args[0]
        self._fill(given)

    def _fill(self, given: dict[str, Any]) -> None:
        has_array = "index_array" in given
        if has_array and "input_dimension" in given:
            raise TypeError("OutputIndexMap: only one of input_dimension and index_array can be given")
        if "stride" in given and not has_array and "input_dimension" not in given:
            raise TypeError("OutputIndexMap: stride needs input_dimension or index_array")
        numbers = {
            name: as_int64(given[name], f"OutputIndexMap: {name}")
            for name in ("offset", "stride", "input_dimension")
            if name in given
        }
        self._offset = numbers.get("offset", 0)
        self._stride = numbers.get("stride", 1)
        self._dim = numbers.get("input_dimension")
        self._array = _index_array(given["index_array"]) if has_array else None
        self._range = (-INF, UPPER)
        if "index_range" in given:
            index_range = given["index_range"]
            if not has_array or not isinstance(index_range, Dim):
                raise TypeError("OutputIndexMap: index_range must be a Dim and needs index_array")
            self._range = (index_range.inclusive_min, index_range.exclusive_max)

    @property
    def method(self) -> OutputIndexMethod:
        """Formula of the map."""
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
        check_same_type(self, other)
        assert isinstance(other, OutputIndexMap)
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
    """The output index maps of a transform, one for each output dimension.

    Examples
    --------
    >>> import chunkwise
    >>> transform = chunkwise.IndexTransform(input_shape=[4, 6])[1:3, ::2]
    >>> transform([2, 1])
    (2, 2)
    >>> transform.output[1].method, transform.output[1].stride
    (<OutputIndexMethod.single_input_dimension: 1>, 2)
    """

    __slots__ = ("__weakref__", "_maps")

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
        if not isinstance(other, OutputIndexMaps | Sequence) or not all(
            isinstance(m, OutputIndexMap) for m in other
        ):
            raise TypeError(f"OutputIndexMaps can be compared with output index maps only, not {other!r}")
        return list(self._maps) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return OutputIndexMaps, (self._maps,)

    def __repr__(self) -> str:
        return repr(list(self._maps))
