"""Values that users pass (NumPy arrays, tensors, pandas, Python objects) as arrays of a data type."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import plain_json
from chunkwise.core.base.extras import is_of
from chunkwise.core.dtypes.conversion import fitted, objects, times_as
from chunkwise.core.dtypes.data_type import WITHOUT_UNIT, DataType, counts, dtypes
from chunkwise.core.dtypes.integer import is_small, sign_extended
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "as_array",
    "as_numpy",
    "elements_of",
    "is_missing",
    "memory_of_tensor",
    "of_objects",
    "plain_array",
]


def memory_of_tensor(tensor: Any) -> npt.NDArray[Any]:
    """Return the memory of a tensor; types that NumPy lacks, such as bfloat16, become ml_dtypes' types."""
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError:
        found = dtypes.get(str(tensor.dtype).removeprefix("torch."))
        if found is None:
            raise
    dtype = found.memory_dtype
    # The module of the data type, since tensors have subclasses elsewhere, such as parameters.
    bits = getattr(sys.modules[type(tensor.dtype).__module__], f"int{8 * dtype.itemsize}")
    return tensor.view(bits).numpy().view(dtype)  # type: ignore[no-any-return]


_NUMBER = dict.fromkeys("iuf", "f")


def _check_missing(values: Any) -> None:
    dtype = getattr(values, "dtype", None)
    is_category = str(dtype) == "category"
    if isinstance(dtype, np.dtype) or not (is_category or getattr(dtype, "kind", "") in "iubf"):
        return
    if n_missing := int(values.isna().sum()):
        instead = 'values.fillna(0), or values.astype("float64") for NaN'
        raise InvalidArgumentError(
            f"{n_missing} of {len(values)} values of {dtype} are missing, and an array keeps no mark; "
            f"say what stands for them, as with {'values.cat.codes, -1' if is_category else instead}"
        )


def elements_of(value: Any) -> Any:
    """Return a tensor of a type that NumPy lacks as an array; anything else as it is.

    Numbers and categories of pandas of which some are missing are refused: NumPy would make them NaN.
    So are links, which it would take for text or objects.
    """
    if isinstance(value, int | float | list):
        return value
    if is_of(value, "pandas") and _is_array(value):
        columns = [column for _, column in value.items()] if hasattr(value, "columns") else [value]
        for column in columns:
            _check_missing(column)
        if len({_NUMBER.get(column.dtype.kind, column.dtype.kind) for column in columns}) > 1:
            raise InvalidArgumentError(
                "the columns of the DataFrame are of several types: write group[name] = frame[name] for each"
            )
        return value
    if is_of(value, "h5py") and getattr(value, "shape", ()) is None:
        raise InvalidArgumentError(
            "an h5py.Empty has a type and no elements: create_array(path, shape=0, dtype=...) makes an array "
            "without elements, and an attribute can be None"
        )
    if type(value).__name__.endswith("Link") and (is_of(value, "chunkwise") or is_of(value, "h5py")):
        raise TypeError("a link has no elements; did you mean group.create_link(path, target)?")
    kind, _, name = str(getattr(value, "dtype", "")).partition(".")
    found = dtypes.get(name) if kind == "torch" else None
    return value if found is None or found.memory_dtype.isbuiltin == 1 else memory_of_tensor(value)


def as_numpy(value: Any, *, has_dtype: bool = False) -> npt.NDArray[Any]:
    """Return values as NumPy has them; raise for lists of different lengths, and for groups and mappings.

    If the data type is given, a mapping may be an element.
    """
    if not has_dtype and (
        isinstance(value, Mapping) or (is_of(value, "zarr") and not hasattr(value, "shape"))
    ):
        raise TypeError(
            f"a {type(value).__name__} has no elements: write group[name] = value[name] for each of its "
            "members; copy_tree copies whole trees"
        )
    try:
        array = _with_mask(elements_of(value))
    except ValueError as e:
        raise _uneven(e) from None
    if array.dtype.kind in "US":
        _refuse_missing(value)
    return array


def _uneven(error: ValueError) -> ValueError:
    """Return the error about lists; NumPy's own doesn't say what to do with different lengths."""
    if "inhomogeneous" not in str(error):
        return error
    found = InvalidArgumentError(str(error))
    found.add_note(
        "the lists are of different lengths, and an array is not: pad them, or write "
        "numpy.concatenate(values) and the end of each, numpy.cumsum([len(v) for v in values])"
    )
    return found


def as_array(value: Any, dtype: DataType, max_rank: int | None = None) -> npt.NDArray[Any]:
    """Return `value` as an array of ``dtype.memory_dtype``; such an array is returned as it is."""
    # Arrays are converted if NumPy calls that safe.  Python scalars and lists are converted element by
    # element, so that 1.7 becomes the integer 1.  NumPy scalars are converted unchecked.  For json, lists
    # below `max_rank` are elements.
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        value = elements_of(value)
        value = plain_array(value) if _is_array(value) or _has_masked_rows(value) else value
    try:
        array = _objects(value, dtype, max_rank) if dtype.memory_dtype.hasobject else _fixed(value, dtype)
    except ValueError as e:
        raise _uneven(e) from None
    if max_rank is not None and array.ndim > max_rank:
        raise ValueError(
            f"object too deep for desired array: it has rank {array.ndim}, and at most {max_rank} is possible"
        )
    return array


def _with_mask(value: Any) -> npt.NDArray[Any]:
    """Return values as NumPy has them, with their mask, which an array of dask drops itself."""
    value = value.compute() if is_of(value, "dask") else value
    return np.ma.array(value) if _has_masked_rows(value) else np.asanyarray(value)


def _has_masked_rows(value: Any) -> bool:
    is_of_arrays = isinstance(value, list | tuple) and bool(value) and isinstance(value[0], np.ndarray)
    return is_of_arrays and any(map(np.ma.is_masked, value))


def plain_array(value: Any) -> npt.NDArray[Any]:
    """Return an array of any kind as a plain NumPy array; raise if it has masked elements."""
    value = _with_mask(value)
    if np.ma.is_masked(value):
        n_masked = int(np.ma.getmaskarray(value).sum())
        raise InvalidArgumentError(
            f"{n_masked} of {value.size} values are masked, and an array keeps no mask; say what "
            "stands for them, as with values.filled(0)"
        )
    return np.asarray(value)


def _is_array(value: Any) -> bool:
    if isinstance(value, np.generic | str | bytes):
        return False
    return isinstance(value, np.ndarray | memoryview) or hasattr(type(value), "__array__")


def _fixed(value: Any, dtype: DataType) -> npt.NDArray[Any]:
    memory = dtype.memory_dtype
    if isinstance(value, np.ndarray) and value.dtype == memory and value.dtype.isnative:
        return sign_extended(value, dtype) if is_small(dtype) else value
    from_numbers = getattr(dtype.extension, "from_numbers", None)
    if from_numbers is not None and (numbers := np.asarray(value)).dtype.names is None:
        out = from_numbers(numbers, "safe" if _is_array(value) else "unsafe")
    elif memory.kind in "mM" and dtype.name in WITHOUT_UNIT:
        out = counts(value, dtype)
    elif _is_array(value):
        out = _safely(value, memory)
    elif memory.kind in "mM":
        out = _times(value, memory)
    elif isinstance(value, np.generic) and memory.kind not in "SU" and value.dtype.kind not in "SU":
        with np.errstate(all="ignore"):
            out = np.asarray(value).astype(memory)
    elif dtype.kind in ("bytes", "char", "text", "raw", "byte"):
        out = _sized(value, dtype)
    else:
        with np.errstate(all="ignore"):
            out = np.array(value, memory)
    return sign_extended(out, dtype) if is_small(dtype) else out


def _safely(array: npt.NDArray[Any], memory: np.dtype[Any]) -> npt.NDArray[Any]:
    # NumPy matches fields by position and calls that safe.
    if memory.names != array.dtype.names:
        raise TypeError(
            f"Cannot cast array data from {array.dtype!r} to {memory!r} according to the rule 'safe'"
        )
    try:
        if memory.kind == array.dtype.kind in ("m", "M") and np.can_cast(array.dtype, memory):
            return times_as(array, memory)
        return array.astype(memory, casting="safe", copy=False)
    except TypeError as e:
        instead = f"values are not rounded or cut silently: write values.astype({memory.name!r})"
        e.add_note(of_objects(array) if array.dtype.kind == "O" else instead)
        raise


def _times(value: Any, memory: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert times in lists, and numbers; unlike NumPy, wrap none around."""
    given = np.asarray(value)
    if given.dtype.kind in "OUS":
        with suppress(ValueError), warnings.catch_warnings():  # numbers among them
            warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5, which has to find the unit
            given = np.array(value, f"{memory.kind}8")  # in the unit that they need
    if given.dtype.kind == memory.kind:
        return times_as(given, memory)
    if given.dtype.kind in "mM":
        return _safely(given, memory)
    with np.errstate(all="ignore"):
        return given.astype(memory) if isinstance(value, np.generic) else np.array(value, memory)


def of_objects(values: npt.NDArray[Any]) -> str:
    """Return which objects an array has, and what to store instead of them, as the end of a message."""
    present: dict[type, Any] = {}
    n_missing = 0
    for value in values.ravel().tolist():
        if is_missing(value):
            n_missing += 1
        else:
            present[type(value)] = value
    whole = "float64" if n_missing else "bool" if present.keys() == {bool} else "int64"
    found = next((code for kind, code in _INSTEAD if all(issubclass(one, kind) for one in present)), "")
    if present and all(kind.__module__.startswith("h5py") for kind in present):
        found = "write the name of what each refers to, file[reference].name"
    if found.endswith("Index(values)") and any(getattr(one, "tzinfo", None) for one in present.values()):
        found += ".tz_convert(None)"
    kinds = ", ".join(sorted(kind.__name__ for kind in present))
    missing = f", {n_missing} of {values.size} are missing" if n_missing else ""
    return f"the values are objects ({kinds}{missing}); {found.format(whole)}"


def is_missing(value: Any) -> bool:
    """Return True for what stands for a missing value: None, NaN, and pandas' NA and NaT."""
    is_nan = isinstance(value, float | np.floating) and value != value
    return is_nan or type(value).__name__ in ("NoneType", "NAType", "NaTType")


def _refuse_missing(texts: Any) -> None:
    """Raise if a value among texts is missing; NumPy makes it text, "None" or "nan"."""
    if isinstance(texts, list | tuple) or is_missing(texts):
        objects = np.array(texts, object)
        if any(map(is_missing, objects.ravel().tolist())):
            raise InvalidArgumentError(of_objects(objects))


_INSTEAD = (
    (str, 'write pandas.Series(values).fillna("")'),
    (int, 'write numpy.asarray(values, "{}")'),
    (Number, 'write numpy.asarray(values, "float64")'),
    (date, "write pandas.DatetimeIndex(values)"),
    (timedelta, "write pandas.TimedeltaIndex(values)"),
    (set | frozenset | Iterator, "write list(values)"),
    (str | int | float | list | tuple | dict, 'give the dtype "json", which format="zarr2" has'),
    (str | bytes, 'give the dtype: "ustring" for text, "string" for bytes'),
    (object, "no data type holds them: write numbers, or their text as numpy.asarray(values, str)"),
)


def _sized(value: Any, dtype: DataType) -> npt.NDArray[Any]:
    """Convert strings, but unlike NumPy don't truncate those that are too long, nor make text of None."""
    _refuse_missing(value)
    memory = dtype.memory_dtype
    if dtype.kind == "text":
        natural = np.array(value, np.str_)
        return fitted(natural.ravel().tolist(), dtype).reshape(natural.shape)
    natural = np.array(value, np.bytes_)
    padded = DataType(f"S{memory.itemsize}")
    out = fitted(natural.ravel().tolist(), padded).reshape(natural.shape)
    return out.view(memory) if dtype.kind in ("raw", "byte") else out


def _objects(value: Any, dtype: DataType, max_rank: int | None) -> npt.NDArray[Any]:
    if _is_array(value):
        array = value if value.dtype.kind == "O" else value.astype(object)
    else:
        array = _from_lists(value, max_rank)
    check = {"string": _bytes, "ustring": _text, "json": plain_json}[dtype.kind]
    return objects(map(check, array.ravel().tolist()), array.shape, array.size)


def _from_lists(value: Any, max_rank: int | None) -> npt.NDArray[Any]:
    array = np.array(value, object)
    if max_rank is None or array.ndim <= max_rank:
        return array
    shape = array.shape[:max_rank]
    out = np.empty(shape, object)
    for index in np.ndindex(*shape):
        element = value
        for i in index:
            element = element[i]
        out[index] = element
    return out


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        hint = '; the dtype of text is "ustring"' if isinstance(value, str) else ""
        raise TypeError(f"expected bytes, {type(value).__name__} found{hint}")
    return bytes(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected str, {type(value).__name__} found")
    return str(value)
