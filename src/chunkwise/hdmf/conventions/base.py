"""The writing half of the three storage conventions: documents of nodes, stored values."""

# ================= ======================== ============================ ============================
# what              Zarr v2                  Zarr v3                      N5
# ================= ======================== ============================ ============================
# text              ``|O``, ``vlen-utf8``    ``string``                   encoded group
# bytes             ``|O``, ``vlen-bytes``   ``string``, ``_DTYPE bytes`` encoded group
# reference         ``|O``, ``json2``        ``string``, a path           encoded group
# compound          struct, or JSON rows     ``struct``                   encoded group
# scalar            ``[1]``                  ``[]``                       ``[1]``, ``_SCALAR``
# ================= ======================== ============================ ============================

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkwise import DataType
from chunkwise.copying.array_options import each_size
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import as_items
from chunkwise.hdmf.model.attributes import finite_attributes
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference, dump_identity, dump_reference
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree, attributes_member

__all__ = [
    "Convention",
    "NewDataset",
    "dump_json",
    "fill_value",
    "object_scalar",
    "text_fill",
]

OBJECT_NBYTES = 64
"""Bytes that an object counts as when chunks are chosen."""

TARGET_NBYTES = 1 << 20
"""Size of a chunk, uncompressed."""

_SMALL_DOCUMENT = 1 << 12
_EMPTY_EXTENT = 1024  # of a chunk along an axis without elements


@dataclass(frozen=True)
class NewDataset:
    """Description of a new dataset."""

    path: str
    element: Element
    # As users see it.
    shape: Sequence[int]
    settings: Settings
    # JSON of the attributes of users; what the storage needs is added.
    attributes: Mapping[str, Any]
    scalar: bool = False
    # Characters of the longest text in a compound.
    width: int = 0
    # Whether there are bytes that are not UTF-8.
    binary: bool = False
    # Whether references in Zarr v2 are stored in the form that hdmf-zarr writes by default.
    pickled: bool = False
    # Whether each index of a chunk of Zarr v2 is a directory.
    nested: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an element, estimated for objects."""
        return self.element.memory_dtype.itemsize if self.element.is_plain else OBJECT_NBYTES


class Convention(ABC):
    """One storage convention."""

    format: Format
    group_document: ClassVar[Mapping[str, Any]] = {}
    """Members of the document of a group without attributes."""
    root_document: ClassVar[Mapping[str, Any]] = {}
    """Members that the document of the root has besides."""
    scalar_shape: tuple[int, ...] = (1,)
    compounds_have_width: bool = False
    """Whether text in compounds has a fixed width."""
    has_binary: bool = False
    """Whether bytes that are not UTF-8 have a data type of their own."""

    # -- references -------------------------------------------------------------------------------

    def reference_attribute(self, value: Reference, *, compat: bool) -> dict[str, Any]:
        """Return an attribute that is a reference; `compat` concerns regions in Zarr v2."""
        key = "_REFERENCE" if value.region is None else "_REGION_REFERENCE"
        return {key: dump_reference(value, full=False)}

    def link(self, name: str, value: Reference) -> dict[str, Any]:
        """Return an entry of the list of links."""
        return {"source": value.source, "path": value.path, "name": name} | dump_identity(value)

    # -- nodes ------------------------------------------------------------------------------------

    def group(self, path: str, attributes: Mapping[str, Any]) -> HdmfNode:
        """Return the node of a group."""
        document = {**self.group_document, **(self.root_document if path == "/" else {})}
        return self.with_attributes(HdmfNode(path, False, document, {}), attributes)

    def with_attributes(self, node: HdmfNode, attributes: Mapping[str, Any]) -> HdmfNode:
        """Return a node with other attributes."""
        member = attributes_member(self.format)
        if not member:
            return replace(node, attributes=dict(attributes))
        own = finite_attributes(attributes)
        document = {**node.document, member: own}
        if not own and member not in self.group_document:
            del document[member]
        return replace(node, document=document, attributes=own)

    @abstractmethod
    def array(self, new: NewDataset) -> HdmfNode:
        """Return the node of a new array."""

    @abstractmethod
    def documents(self, node: HdmfNode) -> dict[str, bytes]:
        """Return the values to store for a node, by key relative to it."""

    @abstractmethod
    def consolidated(self, tree: HdmfTree) -> dict[str, bytes]:
        """Return the documents at the root that hold copies of all others."""

    def specification(self, path: str) -> HdmfNode | None:
        """Return the node of a cached specification, which is text; None if it is like any dataset."""
        return None

    # -- values -----------------------------------------------------------------------------------

    def can_stream(self, element: Element) -> bool:
        """Return True if values of a type are in one array of plain elements, which is written in pieces."""
        return element.is_plain

    @abstractmethod
    def to_stored(self, values: Any, element: Element, array: PhysicalArray) -> npt.NDArray[Any]:
        """Return values of users as an array holds them."""

    # -- shared -----------------------------------------------------------------------------------

    def _stored_shape(self, new: NewDataset) -> tuple[int, ...]:
        return self.scalar_shape if new.scalar else tuple(int(n) for n in new.shape)

    def _chunks(self, new: NewDataset) -> tuple[int, ...]:
        shape, chunks = self._stored_shape(new), new.settings.chunks
        usual = choose_chunks(shape, new.itemsize)
        if chunks is None or new.scalar:
            return usual
        items = as_items(chunks)
        if items is not None and len(items) == len(shape):
            # Some writers copy the extents of an empty dataset to its chunks.
            chunks = [1 if not n and not extent else n for n, extent in zip(items, shape, strict=True)]
        return each_size("chunks", chunks, shape, usual)


def dump_json(value: Any, indent: int, *, sort: bool) -> bytes:
    """Return a small document as the writers of the format lay it out, a large one compactly."""
    # Python's encoder of indented text takes ten times as long.  Many small documents of a file are the same.
    compact = json.dumps(value, sort_keys=sort, separators=(",", ":"))
    return _laid_out(compact, indent) if len(compact) <= _SMALL_DOCUMENT else compact.encode()


@lru_cache(maxsize=256)
def _laid_out(compact: str, indent: int) -> bytes:
    return json.dumps(json.loads(compact), indent=indent, separators=(",", ": ")).encode()


def fill_value(fill: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a fill value as an array of shape ``()``; None means zero, or not-a-time."""
    if fill is None:
        return DataType(dtype).zero()
    given = np.asarray(fill)
    lost = False
    try:
        with np.errstate(all="ignore"):
            value = (given.real if given.dtype.kind == "c" and dtype.kind in "biuf" else given).astype(dtype)
        if given.dtype.kind in "biufc" and dtype.kind in "biu":
            lost = given.item() != value.item()
        elif given.dtype.kind in "biufc" and dtype.kind == "f":
            lost = given.imag.item() != 0 or np.isinf(value) != np.isinf(given)
    except (TypeError, ValueError):  # of NumPy
        lost = True
    if lost:
        raise InvalidArgumentError(f"fill value {fill!r} is no {dtype.name}")
    return value


def text_fill(fill: Any) -> str:
    """Return a fill value of text or bytes as text; any other is empty."""
    if isinstance(fill, bytes):
        return fill.decode("utf-8", "surrogateescape")
    return str(fill) if isinstance(fill, str) else ""


def object_scalar(fill: Any) -> npt.NDArray[Any]:
    """Return bytes of any length as an array of objects of shape ``()``."""
    out = np.empty((), object)
    out[()] = fill.encode() if isinstance(fill, str) else bytes(fill) if isinstance(fill, bytes) else b""
    return out


# -- chunks whose shape the writer leaves to the store ----------------------------------------------------


def choose_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return chunks of about 1 MiB: all of a small dataset, whole rows of a larger one where they fit."""
    # An empty dataset will grow; h5py guesses the same.
    chunks = [int(n) or _EMPTY_EXTENT for n in shape]
    # Halving the longest axis keeps pieces compact; the first is halved first, as data grows along it.
    while itemsize * math.prod(chunks) > TARGET_NBYTES and max(chunks, default=1) > 1:
        axis = max(range(len(chunks)), key=lambda i: (chunks[i], -i))
        chunks[axis] = -(-chunks[axis] // 2)
    return tuple(chunks)
