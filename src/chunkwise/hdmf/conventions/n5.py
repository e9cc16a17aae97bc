"""HDMF in N5: numbers as datasets, all else as encoded groups, attributes in an object of their own."""

# A group with ``_ENCODED`` in its HDMF attributes is a dataset.  Text, bytes and references lie in ``data``,
# all items one after the other, and ``offsets``, where each begins and the last ends; a compound has one
# child for each member, named by its position, which may be encoded itself.

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError, InvalidArgumentError, UnsupportedError
from chunkwise.extension.n5 import ITEM_NBYTES, NUMERIC_VERSION
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.conventions.base import Convention, NewDataset
from chunkwise.hdmf.conventions.zarr3 import text_of
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.declaration import n5_type
from chunkwise.hdmf.model.element import Element, number
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import join_path
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree
from chunkwise.hdmf.model.values import as_values, to_logical

__all__ = ["N5Convention", "decode_items", "encoded_shape", "restore_number"]

_KINDS = {"text": "text", "bytes": "bytes", "reference": "object_reference", "region": "region"}

_MAX_NBYTES = 1 << 31
"""Limit on the text of one dataset that is read at once."""


class N5Convention(Convention):
    """The mapping of HDMF to N5; the axes of a dataset are in the reverse order on disk."""

    format: Format = "n5"
    root_document: ClassVar[Mapping[str, Any]] = {
        tree_format("n5").container_member: NUMERIC_VERSION,
        "hdmf_n5": {"version": 1},
    }

    def array(self, new: NewDataset) -> HdmfNode:
        if new.settings.shards is not None or new.settings.serializer is not None:
            raise UnsupportedError("N5 has neither shards nor serializers")
        if new.element.kind != "number":
            raise InvalidArgumentError("only numbers are arrays in N5")
        stored_shape = self._stored_shape(new)
        chunks = self._chunks(new)
        compressors = new.settings.compressors("n5")
        if new.settings.filters not in (None, "auto", [], ()):
            raise UnsupportedError("N5 has no filters")
        if new.settings.fill_value is not None and np.any(new.settings.fill_value):
            raise UnsupportedError("fill_value: N5 has no fill value; missing elements read as 0")
        stored = n5_type(new.element.memory_dtype).name
        if stored not in ITEM_NBYTES:
            raise UnsupportedError(f"N5 has no type for {new.element.name}")
        document = {
            "dimensions": list(stored_shape[::-1]),
            "blockSize": list(chunks[::-1]),
            "dataType": stored,
            "compression": compressors[-1] if compressors else {"type": "raw"},
        }
        reserved: dict[str, Any] = {"_DTYPE": new.element.name}
        if new.scalar:
            reserved["_SCALAR"] = True
        return self.with_attributes(HdmfNode(new.path, True, document, {}), {**new.attributes, **reserved})

    def documents(self, node: HdmfNode) -> dict[str, bytes]:
        return {"attributes.json": json.dumps(node.document, separators=(",", ":")).encode()}

    def consolidated(self, tree: HdmfTree) -> dict[str, bytes]:
        return {}

    def can_stream(self, element: Element) -> bool:
        return element.kind == "number"

    def to_stored(self, values: Any, element: Element, array: PhysicalArray) -> npt.NDArray[Any]:
        return _store_number(as_values(values, element))

    def _storage(self, element: Element, shape: tuple[int, ...], settings: Settings) -> dict[str, Any]:
        """Return the settings that an empty dataset gets with its first elements."""
        compressors = settings.compressors("n5")
        out: dict[str, Any] = {"compression": compressors[-1] if compressors else {"type": "raw"}}
        if element.kind == "number":
            new = NewDataset("", element, shape, settings, {})
            out["blockSize"] = list(self._chunks(new)[::-1])
        return out

    def encoded(
        self,
        path: str,
        element: Element,
        values: npt.NDArray[Any],
        scalar: bool,
        settings: Settings,
        attributes: Mapping[str, Any],
    ) -> list[tuple[HdmfNode, npt.NDArray[Any] | None]]:
        """Return the nodes of an encoded or empty dataset, each with the values to be stored in it."""
        shape = [] if scalar else list(values.shape)
        kept = {} if values.size else {"storage": self._storage(element, values.shape, settings)}
        if element.kind == "number":
            empty = {"shape": shape, "dtype": number(element.memory_dtype).name, **kept}
            return [(self.group(path, {**attributes, "_EMPTY": empty, "_DTYPE": element.name}), None)]
        if element.kind != "compound":
            kind = {"kind": _KINDS[element.kind], "shape": shape, "version": 1, **kept}
            head = self.group(path, {**attributes, "_ENCODED": kind})
            if not values.size:
                return [(head, None)]
            data, offsets = _encode_items(_items(values, element))
            plain = Settings(compressor=settings.compressor)
            out: list[tuple[HdmfNode, npt.NDArray[Any] | None]] = [(head, None)]
            for name, column in (("data", data), ("offsets", offsets)):
                if column.size:
                    node = self.array(
                        NewDataset(join_path(path, name), number(column.dtype), column.shape, plain, {})
                    )
                    out.append((node, column))
            return out
        fields = {"kind": "compound", "fields": element.describe(), "shape": shape, "version": 1, **kept}
        out = [(self.group(path, {**attributes, "_ENCODED": fields}), None)]
        for i, m in enumerate(element.members):
            at = join_path(path, str(i))
            # The member of the void record of a scalar is no array.
            column = np.asarray(values[m.name], m.element.memory_dtype).reshape(-1)
            if m.element.kind == "number" and column.size:
                plain = Settings(compressor=settings.compressor)
                node = self.array(NewDataset(at, m.element, column.shape, plain, {}))
                out.append((node, _store_number(column)))
            else:
                out += self.encoded(at, m.element, column, False, settings, {})
        return out


def kept_settings(attributes: Mapping[str, Any]) -> Settings | None:
    """Return the settings of a dataset without elements, which no array holds; None if there are none."""
    found = (attributes.get("_EMPTY") or attributes.get("_ENCODED") or {}).get("storage")
    if not isinstance(found, dict):
        return None
    chunks = found.get("blockSize")
    return Settings(chunks and tuple(chunks[::-1]), compressor=found.get("compression", True))


def _items(values: npt.NDArray[Any], element: Element) -> list[bytes]:
    """Return the bytes of each value, in C order."""
    flat = values.reshape(-1).tolist()
    if element.kind == "text" and set(map(type, flat)) == {str}:  # as most columns are
        return list(map(str.encode, flat))
    if element.kind == "bytes":
        return list(map(bytes, flat))
    return [text_of(value, element).encode() for value in flat]


# -- encoded values -----------------------------------------------------------------------------------


def encoded_shape(value: Any) -> tuple[int, ...]:
    """Return the shape in ``_ENCODED`` or ``_EMPTY``."""
    shape = value.get("shape") if isinstance(value, dict) else None
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise DataCorruptionError(f"Expected a shape, but received: {shape!r:.100}")
    return tuple(shape)


def decode_items(
    read: Callable[[str, int, int], npt.NDArray[Any]], n_items: int, element: Element
) -> npt.NDArray[Any]:
    """Return encoded items as a 1-D object array."""
    if n_items == 0:
        return np.empty(0, object)
    offsets = read("offsets", 0, n_items + 1).astype(np.int64)
    if (
        len(offsets) != n_items + 1
        or offsets[0] < 0
        or (np.diff(offsets) < 0).any()
        or offsets[-1] > _MAX_NBYTES
    ):
        raise DataCorruptionError("offsets of encoded values are malformed")
    first, last = int(offsets[0]), int(offsets[-1])
    raw = read("data", first, last).tobytes() if last > first else b""
    if len(raw) != last - first:
        raise DataCorruptionError(f"encoded values end at {last}, but there are {first + len(raw)} bytes")
    bounds = (offsets - first).tolist()
    parts: list[Any] = [raw[start:stop] for start, stop in itertools.pairwise(bounds)]
    if element.kind != "bytes":
        try:
            parts = list(map(bytes.decode, parts))
        except UnicodeDecodeError as e:
            raise DataCorruptionError(f"item {parts.index(e.object)}: {e}") from None
    items = np.empty(n_items, object)
    items[:] = parts
    return to_logical(items, element)


def _encode_items(items: list[bytes]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """Return ``data`` and ``offsets`` of items."""
    offsets = np.zeros(len(items) + 1, np.uint64)
    np.cumsum(list(map(len, items)), out=offsets[1:])
    return np.frombuffer(b"".join(items), np.uint8), offsets


def restore_number(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    """Return numbers of types that N5 lacks from those that they are stored as."""
    dtype = element.memory_dtype
    if values.dtype == dtype:
        return values
    if n5_type(dtype) != values.dtype:
        raise DataCorruptionError(f"numbers are stored as {values.dtype}, but declared as {dtype}")
    return values.astype(bool) if dtype.kind == "b" else values.view(dtype)


def _store_number(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the stored form of numbers of types that N5 lacks."""
    return values.view(n5_type(values.dtype))
