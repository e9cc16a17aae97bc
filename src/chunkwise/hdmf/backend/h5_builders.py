"""Builders that hdmf has read from an HDF5 file: what they don't say is looked up in the file."""

# hdmf takes a reference to a region for one to the whole dataset, and leaves references in arrays alone.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hdmf.backends.io import HDMFIO
from hdmf.build import Builder, ReferenceBuilder

from chunkwise.hdmf.backend.builder_paths import path_of
from chunkwise.hdmf.backend.h5_source import attributes_of_h5
from chunkwise.hdmf.model.place import canonical_source
from chunkwise.hdmf.model.reference import Reference

__all__ = ["H5Builders", "is_h5_io", "unreadable"]


def is_h5_io(io: HDMFIO | None) -> bool:
    """Return True if files are read by hdmf's HDF5 backend."""
    return any(cls.__module__.startswith("hdmf.backends.hdf5") for cls in type(io).__mro__)


def unreadable(io: Any) -> str | None:
    """Return the name of a dataset that hdmf fails to read, without saying which; None if there is none."""
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        dtype = getattr(node, "dtype", None)
        if dtype is not None and dtype.kind == "V" and dtype.names is None:
            found.append(str(node.name))

    io._file.visititems(visit)
    return found[0] if found else None


class H5Builders:
    """The builders of one file."""

    def __init__(self, io: Any, convert: Callable[[Any, Reference], Reference]) -> None:
        self._file = io._file
        self._source = canonical_source(str(io.source))
        self._convert = convert

    def _object(self, builder: Any) -> Any:
        """Return the object that a builder was read from; None if it was made otherwise."""
        if builder.location is None or builder.source is None:
            return None
        if canonical_source(builder.source) != self._source:
            return None
        return self._file.get(path_of(builder))

    def attributes(self, builder: Any) -> Mapping[str, Any]:
        """Return the attributes of a builder, references as records; labels of dimensions are its names."""
        given: dict[str, Any] = builder.attributes
        names = [k for k, v in given.items() if isinstance(v, Builder) or _has_objects(v)]
        if "DIMENSION_LABELS" in given:
            names.append("DIMENSION_LABELS")
        found = self._object(builder) if names else None
        if found is None:
            return given
        return {k: v for k, v in given.items() if k not in names} | attributes_of_h5(
            found, self._convert, [name for name in names if name in found.attrs]
        )

    def dataset(self, builder: Any) -> Any:
        """Return the dataset of h5py for a builder whose data hdmf has read; None if that says all."""
        data = builder.data
        if isinstance(data, ReferenceBuilder) or (_has_objects(data) and data.shape == ()):
            return self._object(builder)
        return None


def _has_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.void) and value.dtype.hasobject
