"""NumPy's protocols for arrays: iteration, conversion to a number, memory of other libraries."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.public_names import explains_operators
from chunkwise.core.dtypes.as_array import memory_of_tensor
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.dtypes.data_type import DataType
    from chunkwise.core.index_space import IndexDomain, IndexTransform

__all__ = ["NumpyProtocols", "unlike_numpy", "writable_view"]

_AT_ONCE = 1 << 20  # number of elements that iteration reads ahead


@explains_operators
class NumpyProtocols:
    """Protocols of Python and NumPy, derived from shape, elements and `__array__`."""

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> IndexDomain:
        """Domain of the array."""

    @property
    @abstractmethod
    def dtype(self) -> DataType:
        """Data type of the elements."""

    @abstractmethod
    def __array__(self, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
        """Read the whole array."""

    @abstractmethod
    def __getitem__(self, index: Any) -> Self:
        """Return a view."""

    def __len__(self) -> int:
        domain = self.domain
        if not domain.rank:
            raise TypeError("an array of rank 0 has no length")
        if not domain[0].finite:
            raise TypeError(f"the first dimension has no bounds, so the array has no length: {domain}")
        return int(domain.shape[0])

    def __bool__(self) -> bool:
        return True  # as in TensorStore, however many elements there are

    def __iter__(self) -> Iterator[Any]:
        """Yield views of the rows, or the elements of an array of rank 1; many are read at once."""
        n = len(self)
        first = int(self.domain.inclusive_min[0])
        if self.domain.rank > 1:
            return (self[i] for i in range(first, first + n))
        starts = range(first, first + n, _AT_ONCE)
        return (x for i in starts for x in np.asarray(self[i : min(i + _AT_ONCE, first + n)]))

    def __contains__(self, value: object) -> bool:
        raise TypeError("finding an element in the array takes reading it: value in store.read().result()")

    def _number(self, kind: str) -> Any:
        if self.domain.rank:
            raise TypeError(
                f"only an array of rank 0 is a number: {kind}() of one of rank {self.domain.rank}"
            )
        return np.asarray(self)[()]

    def __int__(self) -> int:
        return int(self._number("int"))

    def __float__(self) -> float:
        return float(self._number("float"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __index__(self) -> int:
        return operator.index(np.asarray(self._number("index")))  # NumPy 2.0 only warns of boolean scalars

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumpyProtocols):
            return self is other  # as in TensorStore, so that lists and dataclasses can hold arrays
        # Comparing by identity would silently return False where elements are meant.
        if not _reads_arrays(other) and _holds_elements(other, self.dtype.kind):
            raise _not_read(other)
        return NotImplemented

    __hash__ = object.__hash__

    def _order(self, other: object) -> Any:
        if _reads_arrays(other):
            return NotImplemented
        raise _not_read(other)

    __lt__ = __le__ = __gt__ = __ge__ = _order

    if not TYPE_CHECKING:  # checkers of types report these themselves

        def _compute(self, other: object = None) -> Any:
            if _reads_arrays(other):
                return NotImplemented
            raise TypeError(
                "an array is read before its elements are computed with, such as a.read().result() + 1; "
                "and written: a[2:4] = a[2:4].read().result() + 1"
            )

    def __dlpack__(self, **options: Any) -> Any:
        """Read the whole array for another library."""
        return np.asarray(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # CPU memory


def _reads_arrays(other: object) -> bool:
    """Return whether the operators of `other` are NumPy's, which read the array, as in TensorStore."""
    return isinstance(other, np.generic) or hasattr(type(other), "__array_ufunc__")


def _holds_elements(other: object, kind: str) -> bool:
    if isinstance(other, str | bytes):
        return kind in _TEXT
    return isinstance(other, Number | Sequence) or hasattr(type(other), "__array__")


def _not_read(other: object) -> TypeError:
    return TypeError(
        f"an array can't be compared with {type(other).__name__} before it is read: compare the result, "
        "such as a.read().result() == 5"
    )


_TEXT = ("bytes", "char", "text", "raw", "byte", "string", "ustring", "json")


def writable_view(out: Any) -> npt.NDArray[Any]:
    """Return the memory of another library's array as a NumPy array, or raise InvalidArgumentError."""
    if not hasattr(type(out), "__dlpack__"):
        name = type(out).__name__
        raise InvalidArgumentError(f"out: expected a NumPy array, but received: {name}, which has no DLPack")
    device = tuple(map(int, out.__dlpack_device__()))
    if device[0] not in _PROCESSOR:
        raise InvalidArgumentError(
            f"out: the {type(out).__name__} is on device {device}, expected memory of the processor; "
            "read into that and copy"
        )
    # PyTorch's own way, since NumPy considers its DLPack read-only.
    shared = memory_of_tensor if callable(getattr(out, "numpy", None)) else np.from_dlpack
    try:
        view: npt.NDArray[Any] = shared(out)
    except (TypeError, RuntimeError, BufferError) as e:  # such as a tensor that requires a gradient
        raise InvalidArgumentError(f"out: the {type(out).__name__} gives no memory to write: {e}") from None
    return view


_PROCESSOR = (1, 3, 11)  # DLPack devices, including pinned memory of CUDA and ROCm


def unlike_numpy(key: Any, transform: IndexTransform) -> str:
    """Return the advice for a key that means something in NumPy; empty for other keys."""
    if isinstance(key, str):
        return "the elements have no fields; names of dimensions are chosen by chunkwise.d[name]"
    terms = key if isinstance(key, tuple) else (key,)
    if any(
        isinstance(term, str) or (isinstance(term, list) and term and isinstance(term[0], str))
        for term in terms
    ):
        return (
            "a field of records is chosen alone, and then elements: array[field][0:2]; several fields are "
            "those of the values read: array.read().result()[[field, field]]"
        )
    numbers = [n for t in terms for n in ((t.start, t.stop) if isinstance(t, slice) else (t,))]
    if any(transform.input_inclusive_min):
        return (
            f"the view keeps the indices of its array, {transform.domain}; view.translate_to[0] begins at 0"
        )
    if not any(isinstance(n, int | np.integer) and n < 0 for n in numbers):
        return ""
    return (
        "indices are TensorStore's: negative ones don't count from the end; of the first dimension "
        "array[array.shape[0] - 1] is the last, array[array.shape[0] - 2 :] are the last two"
    )
