"""Values of a store as h5py takes them: types, attributes, the selections of regions."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, LossWarning, UnsupportedError, prefix
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.logical import map_objects
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.region import parse_region

__all__ = ["h5_attribute", "h5_dtype", "h5_values", "naming", "select_in_space"]


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Name the object that an error is about, once."""
    try:
        yield
    except ChunkwiseError as e:
        raise e if what in str(e) else prefix(e, what) from None
    except UnicodeError as e:
        raise InvalidArgumentError(f"{what}: this text is not UTF-8: {e}") from None
    except (TypeError, ValueError, OSError, RuntimeError) as e:
        raise UnsupportedError(f"{what}: {e}") from e


Referring = Callable[[Reference | None], Any]
"""Returns the HDF5 reference for a record; a null reference for None."""


def h5_dtype(element: Element) -> np.dtype[Any]:
    """Return the type that h5py stores elements as.

    Raises
    ------
    UnsupportedError
        If HDF5 has no such type.
    """
    if element.kind == "compound":
        return np.dtype([(m.name, h5_dtype(m.element)) for m in element.members])
    if element.kind == "text":
        return h5py.string_dtype()  # type: ignore[no-any-return]
    if element.kind == "bytes":
        return h5py.string_dtype("ascii")  # type: ignore[no-any-return]
    if element.kind == "reference":
        return h5py.ref_dtype  # type: ignore[no-any-return]
    if element.kind == "region":
        return h5py.regionref_dtype  # type: ignore[no-any-return]
    dtype = element.memory_dtype
    if dtype.kind in "mM":
        return h5py.opaque_dtype(dtype)  # type: ignore[no-any-return]
    try:
        h5py.h5t.py_create(dtype, logical=True)
    except TypeError:
        raise UnsupportedError(f"HDF5 has no type for {element.name}") from None
    return dtype


def h5_values(values: npt.NDArray[Any], element: Element, refer: Referring) -> npt.NDArray[Any]:
    """Return values with references as those of HDF5."""
    if element.kind == "number":
        return values.astype(
            h5_dtype(element), copy=values.dtype.kind in "mM"
        )  # which keep a mark in their type
    out: npt.NDArray[Any] = np.empty(values.shape, h5_dtype(element))
    if element.kind == "compound":
        for m in element.members:
            out[m.name] = h5_values(np.asarray(values[m.name]), m.element, refer)
        return out
    if not element.has_references:
        out[...] = values
        return out
    flat = out.reshape(-1)
    for i, value in enumerate(values.reshape(-1).tolist()):
        flat[i] = refer(value)
    return out


def h5_attribute(what: str, value: Any, refer: Referring) -> Any:
    """Return an attribute as h5py takes it; what HDF5 can't hold becomes JSON text, with a warning."""
    if isinstance(value, Reference):
        return refer(value)
    if isinstance(value, np.void | np.ndarray) and value.dtype.names is not None:
        return _records(value, refer)
    if isinstance(value, np.ndarray) and value.dtype.kind in "mMO":
        value = value.tolist()
    if isinstance(value, list | tuple):
        return _listed(what, list(value), refer)
    if value is None or isinstance(value, Mapping):
        return _as_json(what, value)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return _as_json(what, value)
    return value


def _records(value: Any, refer: Referring) -> npt.NDArray[Any]:
    records = np.asarray(value)
    columns: dict[str, tuple[npt.NDArray[Any], Any]] = {}
    for name in records.dtype.names or ():
        column, dtype = records[name], records.dtype[name]
        if dtype.hasobject and dtype.names is None:
            first = column.reshape(-1)[0] if column.size else ""
            if isinstance(first, Reference):
                dtype = h5py.ref_dtype if first.region is None else h5py.regionref_dtype
                column = map_objects(column, refer)
            else:
                dtype = h5py.string_dtype("ascii" if isinstance(first, bytes) else "utf-8")
        columns[name] = column, dtype
    out: npt.NDArray[Any] = np.empty(records.shape, [(name, dtype) for name, (_, dtype) in columns.items()])
    for name, (column, _) in columns.items():
        out[name] = column
    return out


def _listed(what: str, value: list[Any], refer: Referring) -> Any:
    flat = list(_leaves(value))
    kinds = {type(item) for item in flat}
    if not flat:
        return np.empty(np.shape(value))
    if kinds == {Reference}:
        region = any(item.region is not None for item in flat)
        return _shaped(what, value, h5py.regionref_dtype if region else h5py.ref_dtype, refer)
    if kinds == {str}:
        return _shaped(what, value, h5py.string_dtype(), lambda item: item)
    if kinds == {bytes} and not any(item.endswith(b"\0") for item in flat):
        # h5py gives text for those of any length.
        return _shaped(what, value, np.dtype(("S", max(1, *map(len, flat)))), lambda item: item)
    if not kinds & {str, bytes, Reference, type(None)} and not any(isinstance(v, Mapping) for v in flat):
        try:
            out = np.asarray(value)
        except ValueError:  # lists of different lengths
            out = np.empty(0, object)
        exact = (kinds <= {bool, np.bool_}) or not kinds & {bool, np.bool_}
        if out.dtype.kind in "biuf" and exact:
            return out
    if Reference in kinds:
        raise InvalidArgumentError(f"{what} has references and other values, for which HDF5 has no form")
    return _as_json(what, [v.decode() if isinstance(v, bytes) else v for v in value])


def _leaves(value: list[Any]) -> Any:
    for item in value:
        if isinstance(item, list | tuple):
            yield from _leaves(list(item))
        else:
            yield item


def _shaped(what: str, value: list[Any], dtype: Any, convert: Callable[[Any], Any]) -> npt.NDArray[Any]:
    shape: list[int] = []
    at: Any = value
    while isinstance(at, list | tuple):
        shape.append(len(at))
        at = at[0] if at else None
    out: npt.NDArray[Any] = np.empty(shape, dtype)
    flat = list(_leaves(value))
    if out.size != len(flat):
        raise InvalidArgumentError(f"{what} has lists of different lengths, for which HDF5 has no form")
    for index, item in zip(np.ndindex(out.shape), flat, strict=True):
        out[index] = convert(item)
    return out


def _as_json(what: str, value: Any) -> str:
    warnings.warn(f"HDF5 has no form for {what}; it becomes JSON text", LossWarning, stacklevel=2)
    return json.dumps(value, ensure_ascii=False)


def select_in_space(what: str, space: Any, region: Mapping[str, Any]) -> None:
    """Select a region in the dataspace of its target."""
    from h5py import h5s

    shape = tuple(space.shape)
    region = parse_region(region)
    if len(shape) != len(region["shape"]):
        raise InvalidArgumentError(f"{what}: a region of rank {len(region['shape'])} in a dataset of {shape}")
    kind = region["type"]
    if kind == "all":
        space.select_all()
    elif kind == "slices":
        ranges = [range(*s) for s in region["slices"]]
        if any(len(r) == 0 for r in ranges):
            space.select_none()
        else:
            terms = [(r.start, len(r), r.step) for r in ranges]
            space.select_hyperslab(*(tuple(part) for part in zip(*terms, strict=True)))
    elif kind == "hyperslab":
        parts = (tuple(region[name]) for name in ("start", "count", "stride", "block"))
        space.select_hyperslab(*parts)
    elif kind == "points" and region["points"]:
        space.select_elements(np.asarray(region["points"]))
    elif kind == "blocks" and region["blocks"]:
        if sorted(region["blocks"]) != list(region["blocks"]):
            warnings.warn(f"{what}: the boxes of a region are in order in HDF5", LossWarning, stacklevel=2)
        space.select_none()
        for first, last in region["blocks"]:
            count = tuple(t - f + 1 for f, t in zip(first, last, strict=True))
            space.select_hyperslab(tuple(first), count, op=h5s.SELECT_OR)
    else:
        space.select_none()
    if not space.select_valid():
        raise InvalidArgumentError(f"{what}: a region reaches out of a dataset of shape {shape}")
