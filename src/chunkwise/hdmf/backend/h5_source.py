"""Datasets of HDF5 files that are exported: their element type, values and regions."""

# h5py is used only through the objects that hdmf hands over; this module imports it when there is one.

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.kvstore.reference.hdf5_regions import region_json
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension.trees import Location, locate
from chunkwise.hdmf.backend.declared_types import DATE_WORDS, as_declared
from chunkwise.hdmf.model.element import Element, bytes_, compound, number, reference, region, text
from chunkwise.hdmf.model.logical import map_objects
from chunkwise.hdmf.model.reference import Reference

__all__ = [
    "H5Source",
    "attribute_of_h5",
    "attributes_of_h5",
    "h5_dataset_of",
    "reference_of_h5",
]

Convert: TypeAlias = Callable[[Any, Reference], Reference]
"""Returns the record by which a store refers to what a reference in a file of h5py means."""


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
            out = np.empty(values.shape, element.memory_dtype)
            for m in element.members:
                out[m.name] = self._plain(values[m.name], m.element)
            return out
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
    import h5py

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
    import h5py

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
    object_id = target.attrs.get("object_id")
    root_id = file.attrs.get("object_id")
    record = Reference(target.name, ".", _text(object_id), _text(root_id), found)
    return record if convert is None else convert(target, record)


def attributes_of_h5(
    holder: Any, convert: Convert | None = None, names: Iterable[str] | None = None
) -> dict[str, Any]:
    """Return attributes of an object of h5py: scalar bytes as text, references as records.

    Labels of dimensions become ``_ARRAY_DIMENSIONS``, as what hdmf calls labels of dimensions is stored.
    """
    out: dict[str, Any] = {}
    for name in holder.attrs if names is None else names:
        value = attribute_of_h5(holder.attrs[name])
        if name == "DIMENSION_LABELS" and "_ARRAY_DIMENSIONS" not in holder.attrs:
            name, value = "_ARRAY_DIMENSIONS", [_text(label) or "" for label in value]
        out[name] = _attribute(holder, value, convert)
    return out


def _attribute(holder: Any, value: Any, convert: Convert | None) -> Any:
    import h5py

    if isinstance(value, h5py.Reference):
        return reference_of_h5(holder, value, convert)
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, list):
        return [_attribute(holder, item, convert) for item in value]
    if not isinstance(value, np.ndarray | np.void) or not value.dtype.hasobject:
        return value
    if value.dtype.names is None:
        return _attribute(holder, value.tolist(), convert)
    out = np.array(value)
    for name in value.dtype.names:
        if value.dtype[name].hasobject:
            for at in np.ndindex(out.shape):
                out[name][at] = _attribute(holder, value[name][at], convert)
    return out[()]


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytes(value)


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else None
