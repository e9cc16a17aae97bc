"""HDMF in Zarr v2, as hdmf-zarr 0.13 reads it: references and rows with text are JSON objects."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkwise import DataType
from chunkwise.core.codec.objects import Json2
from chunkwise.errors import UnsupportedError
from chunkwise.extension.formats import codec_to_json, fill_value_to_zarr2, to_zarr2
from chunkwise.hdmf.conventions.base import (
    Convention,
    NewDataset,
    dump_json,
    fill_value,
    object_scalar,
    text_fill,
)
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element, text
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference, dump_identity, dump_reference
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree
from chunkwise.hdmf.model.values import as_values, map_objects

__all__ = ["JSON2", "Zarr2Convention"]

JSON2 = dict(sorted(codec_to_json(Json2(), "zarr2").items()))

_PICKLED_ZERO = base64.b64encode(b"\x80\x05K\x00.").decode()
"""The fill value of records with objects."""


class Zarr2Convention(Convention):
    """``zarr_dtype``, ``zarr_link``: what hdmf-zarr 0.2 to 0.13 write."""

    format: Format = "zarr2"
    group_document: ClassVar[Mapping[str, Any]] = {"zarr_format": 2}

    def reference_attribute(self, value: Reference, *, compat: bool) -> dict[str, Any]:
        if value.region is not None and compat:
            return {"_REGION_REFERENCE": dump_reference(value, full=True)}
        word = "object" if value.region is None else "region"
        return {"value": dump_reference(value, full=True), "zarr_dtype": word}

    def link(self, name: str, value: Reference) -> dict[str, Any]:
        return {"name": name, "path": value.path, "source": value.source} | dump_identity(value)

    def specification(self, path: str) -> HdmfNode | None:
        node = self.array(NewDataset(path, text, (), Settings(compressor=False), {}, scalar=True))
        # A JSON list of one text, not compressed: what hdmf-zarr reads.
        node.document["filters"] = [JSON2]
        return node

    def array(self, new: NewDataset) -> HdmfNode:
        if new.settings.shards is not None:
            raise UnsupportedError("Zarr v2 has no shards")
        if new.settings.serializer is not None:
            raise UnsupportedError("Zarr v2 has no serializer")
        stored_shape = self._stored_shape(new)
        compressors = new.settings.compressors("zarr2")
        filters = [*new.settings.filter_documents("zarr2"), *compressors[:-1]]
        fill: Any = 0
        dtype: Any = "|O"
        if new.element.kind == "text":
            filters.insert(0, {"id": "vlen-utf8"})
            fill = text_fill(new.settings.fill_value) or fill
        elif new.element.kind == "bytes":
            filters.insert(0, {"id": "vlen-bytes"})
            if new.settings.fill_value:
                fill = fill_value_to_zarr2(object_scalar(new.settings.fill_value), DataType("string"))
        elif new.element.is_plain:
            memory = DataType(new.element.memory_dtype)
            dtype = to_zarr2(memory)
            fill = fill_value_to_zarr2(fill_value(new.settings.fill_value, memory.memory_dtype), memory)
        elif new.pickled and not _has_regions(new.element):
            filters.insert(0, {"id": "pickle", "protocol": 5})
            if new.element.kind == "compound":  # JSON has objects only, for which others know no members
                dtype, fill = _object_records(new.element.memory_dtype), _PICKLED_ZERO
        else:
            filters.insert(0, JSON2)
        document = {
            "chunks": list(self._chunks(new)),
            "compressor": compressors[-1] if compressors else None,
            "dtype": dtype,
            "fill_value": fill,
            "filters": filters or None,
            "order": "C",
            "shape": list(stored_shape),
            "zarr_format": 2,
        }
        if new.nested:
            document["dimension_separator"] = "/"
        reserved: dict[str, Any] = {"zarr_dtype": _zarr2_word(new.element)}
        if new.scalar and (new.element.kind == "compound" or new.element.has_references):
            reserved["_SCALAR"] = True
        elif new.scalar:
            reserved["zarr_dtype"] = "scalar"
        return HdmfNode(new.path, True, document, {**new.attributes, **reserved})

    def documents(self, node: HdmfNode) -> dict[str, bytes]:
        out = {".zarray" if node.is_array else ".zgroup": dump_json(node.document, 4, sort=True)}
        if node.attributes:
            out[".zattrs"] = dump_json(node.attributes, 4, sort=True)
        return out

    def consolidated(self, tree: HdmfTree) -> dict[str, bytes]:
        metadata: dict[str, Any] = {}
        for path, node in tree.nodes.items():
            prefix = "" if path == "/" else path[1:] + "/"
            metadata[prefix + (".zarray" if node.is_array else ".zgroup")] = node.document
            if node.attributes:
                metadata[prefix + ".zattrs"] = node.attributes
        document = {"metadata": metadata, "zarr_consolidated_format": 1}
        return {".zmetadata": dump_json(document, 4, sort=True)}

    def to_stored(self, values: Any, element: Element, array: PhysicalArray) -> npt.NDArray[Any]:
        given = as_values(values, element)
        if element.kind in ("number", "text", "bytes") or (element.is_plain and array.dtype.kind != "O"):
            return given
        return map_objects(given, lambda value: _zarr2_object(value, element))


def _object_records(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None or dtype.fields is None:
        return "|O" if dtype.kind == "O" else to_zarr2(DataType(dtype))
    return [[name, _object_records(dtype.fields[name][0])] for name in dtype.names]


def _has_regions(element: Element) -> bool:
    return element.kind == "region" or any(_has_regions(m.element) for m in element.members)


def _zarr2_word(element: Element) -> Any:
    if element.kind != "compound":
        return element.name
    words = {"text": "str_", "bytes": "bytes", "reference": "object", "region": "region"}
    return [
        {
            "dtype": _zarr2_word(m.element)
            if m.element.kind == "compound"
            else words.get(m.element.kind, m.element.memory_dtype.name),
            "name": m.name,
        }
        for m in element.members
    ]


def _zarr2_object(value: Any, element: Element) -> Any:
    if element.kind == "compound":
        return [_zarr2_object(v, m.element) for v, m in zip(tuple(value), element.members, strict=True)]
    if isinstance(value, Reference):
        return dump_reference(value, full=True)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")  # JSON has no bytes
    return value.item() if isinstance(value, np.generic) else value
