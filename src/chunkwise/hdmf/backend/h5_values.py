"""Values of HDF5 both ways: types, values, attributes, references and regions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import h5py
import numpy as np
import numpy.typing as npt

from chunkwise.core.kvstore.reference.hdf5_objects import object_id, region_json
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, LossWarning, UnsupportedError, prefix
from chunkwise.extension.trees import Location, locate
from chunkwise.hdmf.backend.schema import DATE_WORDS, as_declared
from chunkwise.hdmf.model.attributes import map_items
from chunkwise.hdmf.model.element import Element, bytes_, compound, number, reference, region, text
from chunkwise.hdmf.model.reference import Reference, dump_reference
from chunkwise.hdmf.model.region import parse_region
from chunkwise.hdmf.model.values import map_members, map_objects, shape_of

__all__ = [
    "H5Source",
    "attribute_of_h5",
    "attributes_of_h5",
    "h5_attribute",
    "h5_dataset_of",
    "h5_dtype",
    "h5_values",
    "naming",
    "reference_of_h5",
    "select_in_space",
]

# -- from HDF5 ----------------------------------------------------------------------------------------

Convert: TypeAlias = Callable[[Any, Reference], Reference]
"""Returns a store's record for the target of a reference of h5py."""


def h5_dataset_of(data: Any) -> Any:
    """Return the h5py dataset that data is, or wraps; None if there is none."""
    for _ in range(3):
        module = type(data).__module__
        if module.startswith("h5py.") and type(data).__name__ == "Dataset":
            return data
        if module == "hdmf.utils" and type(data).__name__ == "StrDataset":
            return data
        if not module.startswith("hdmf.backends.hdf5"):
            return None
        data = getattr(data, "dataset", None)
    return None


def attribute_of_h5(value: Any) -> Any:
    """Return the value of an attribute; for h5py's sign that it has none, empty text or no elements."""
    if (type(value).__module__, type(value).__name__) != ("h5py._hl.base", "Empty"):
        return value
    return "" if value.dtype.kind in "SUO" else np.empty(0, value.dtype)


class H5Source:
    """A dataset of h5py as the writer reads it.

    `declared` is its type in the schema, if that is known: it decides whether text is text or bytes.
    """

    def __init__(self, dataset: Any, declared: Any = None, convert: Convert | None = None) -> None:
        self.dataset = getattr(dataset, "dset", None) or dataset
        self.dtype = self.dataset.dtype
        self.shape = tuple(self.dataset.shape or ())
        self._declared = declared
        self._convert = convert

    def close(self) -> None:
        """Let go of the dataset, which keeps its file open."""
        self.dataset = None

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Chunk shape."""
        return self.dataset.chunks  # type: ignore[no-any-return]

    def location(self) -> Location:
        """Return the dataset as an array that any process can open."""
        base = {"driver": "file", "path": os.path.abspath(self.dataset.file.filename)}
        return locate({"driver": "hdf5", "base": base, "path": f"{self.dataset.name[1:]}/"})

    def element(self) -> Element:
        """Return the element type.

        Raises
        ------
        UnsupportedError
            If HDMF has no such type; names the dataset.
        """
        try:
            element = as_declared(_element(self.dtype), self._declared)
        except InvalidArgumentError as e:
            raise UnsupportedError(
                f"dataset {self.dataset.name} of {self.dataset.file.filename}: {e.message}"
            ) from None
        return text if element == bytes_ and self._declared in DATE_WORDS else element

    def read_whole(self) -> tuple[npt.NDArray[Any], Element]:
        """Return all values and their type: bytes, if what should be text is not UTF-8."""
        element = self.element()
        try:
            return self.read((), element), element
        except UnicodeDecodeError:
            element = _as_bytes(element)
            return self.read((), element), element

    def read(self, key: Any, element: Element) -> npt.NDArray[Any]:
        """Return values of an index, with references as records and text decoded."""
        values = self.dataset[key]
        if type(values).__name__ == "Empty":  # h5py's sign that it has no value
            return np.empty(0, element.memory_dtype)
        if not isinstance(values, np.ndarray):
            boxed = np.empty((), element.memory_dtype)
            if isinstance(values, np.void):
                return self._plain(np.array(values, self.dtype), element)
            boxed[()] = self._object(values, element)
            return boxed
        return self._plain(values, element)

    def _plain(self, values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
        if element.kind == "compound":
            return map_members(values, element, self._plain)
        if element.kind == "number":
            return values.astype(element.memory_dtype)
        return map_objects(values, lambda value: self._object(value, element))

    def _object(self, value: Any, element: Element) -> Any:
        if element.kind == "text":
            return value.decode() if isinstance(value, bytes) else str(value)
        if element.kind == "bytes":
            return bytes(value) if isinstance(value, bytes | np.bytes_) else str(value).encode()
        if element.kind in ("reference", "region"):
            return reference_of_h5(self.dataset, value, self._convert)
        return value


def _element(dtype: np.dtype[Any]) -> Element:
    if dtype.names is not None and dtype.fields is not None:
        return compound([(name, _element(dtype.fields[name][0])) for name in dtype.names])
    kind = h5py.check_ref_dtype(dtype)
    if kind is not None:
        return region if kind is h5py.RegionReference else reference
    info = h5py.check_string_dtype(dtype)
    if info is not None:
        return text if info.encoding == "utf-8" else bytes_
    base = h5py.check_enum_dtype(dtype)
    if base is not None and set(base) == {"FALSE", "TRUE"}:
        return number("bool")
    item = h5py.check_vlen_dtype(dtype)
    if item is not None:
        raise InvalidArgumentError(f"elements that are arrays of {item} of any length have no form here")
    return number(dtype)


def _as_bytes(element: Element) -> Element:
    if element.kind == "compound":
        return compound([(m.name, _as_bytes(m.element)) for m in element.members])
    return bytes_ if element.kind == "text" else element


def reference_of_h5(holder: Any, value: Any, convert: Convert | None = None) -> Reference | None:
    """Return an HDF5 reference that a dataset or group holds as a record; None if it is null."""
    if not value:
        return None
    file = holder.file
    try:
        target = file[value]
    except (ValueError, KeyError) as e:
        raise InvalidArgumentError(f"a reference in {holder.name} leads to nothing: {e}") from None
    if target.name is None:
        raise InvalidArgumentError(f"a reference in {holder.name} leads to an object without a name")
    found = None
    if isinstance(value, h5py.RegionReference):
        found = region_json(file, value, tuple(target.shape))
    record = Reference(target.name, ".", object_id(target), object_id(file), found)
    return record if convert is None else convert(target, record)


def attributes_of_h5(
    holder: Any, convert: Convert | None = None, names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return attributes of an object of h5py: scalar bytes as text, references as records.

    Labels of dimensions become ``_ARRAY_DIMENSIONS``, the attribute in which stores keep them.
    """

    def loaded(item: Any) -> Any:
        if isinstance(item, h5py.Reference):
            return reference_of_h5(holder, item, convert)
        try:
            return item.decode() if isinstance(item, bytes) else item
        except UnicodeDecodeError:
            return bytes(item)

    out: dict[str, Any] = {}
    for name in holder.attrs if names is None else names:
        value = attribute_of_h5(holder.attrs[name])
        if name == "DIMENSION_LABELS" and "_ARRAY_DIMENSIONS" not in holder.attrs:
            name, value = "_ARRAY_DIMENSIONS", [_text(label) or "" for label in value]
        out[name] = map_items(value, loaded)
    return out


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else None


# -- to HDF5 ------------------------------------------------------------------------------------------


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
    dtype = h5_dtype(element)
    if element.kind == "compound":
        return map_members(values, element, lambda part, of: h5_values(part, of, refer), dtype)
    out: npt.NDArray[Any] = np.empty(values.shape, dtype)
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
        exact = (kinds <= {bool, np.bool_}) or not kinds & {bool, np.bool_}
        for dtype in (None, "u8") if exact else ():  # large integers are floats in NumPy
            with suppress(ValueError, OverflowError):  # lists of different lengths; negative numbers
                out = np.asarray(value, dtype)
                if out.dtype.kind in "biuf" and all(map(_same, out.reshape(-1).tolist(), flat)):
                    return out
    if Reference in kinds:
        raise InvalidArgumentError(f"{what} has references and other values, for which HDF5 has no form")
    return _as_json(what, [v.decode() if isinstance(v, bytes) else v for v in value])


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))


def _leaves(value: list[Any]) -> Any:
    for item in value:
        if isinstance(item, list | tuple | np.ndarray):
            yield from _leaves(list(item))
        else:
            yield item


def _shaped(what: str, value: list[Any], dtype: Any, convert: Callable[[Any], Any]) -> npt.NDArray[Any]:
    try:
        out: npt.NDArray[Any] = np.empty(shape_of(value), dtype)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"{what} has lists of different lengths, for which HDF5 has no form"
        ) from None
    for index, item in zip(np.ndindex(out.shape), _leaves(value), strict=True):
        out[index] = convert(item)
    return out


def _as_json(what: str, value: Any) -> str:
    warnings.warn(f"HDF5 has no form for {what}; it becomes JSON text", LossWarning, stacklevel=2)
    return json.dumps(value, ensure_ascii=False, default=lambda to: dump_reference(to, full=False))


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
