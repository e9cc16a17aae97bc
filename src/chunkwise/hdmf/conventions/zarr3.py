"""HDMF in Zarr v3: references are text, compounds structs of fixed width."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkwise import DataType
from chunkwise.copying.array_options import shard_sizes
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.formats import as_written, fill_value_to_zarr3, to_zarr3
from chunkwise.extension.trees import EMPTY_CONSOLIDATED
from chunkwise.hdmf.conventions.base import (
    Convention,
    NewDataset,
    dump_json,
    fill_value,
    object_scalar,
    text_fill,
)
from chunkwise.hdmf.model.codecs import Settings, codec_document
from chunkwise.hdmf.model.element import Element, leaves_of, text
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference, dump_reference
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree
from chunkwise.hdmf.model.values import as_values, map_objects

__all__ = ["Zarr3Convention", "is_utf8", "longest_text", "text_of"]

_BINARY = "variable_length_bytes"

MIN_TEXT = 512
"""Characters of the narrowest text member of a Zarr v3 compound."""


class Zarr3Convention(Convention):
    """``_DTYPE``, ``_LINKS``, ``_REFERENCE``: what hdmf-zarr 0.14 writes."""

    format: Format = "zarr3"
    group_document: ClassVar[Mapping[str, Any]] = {"attributes": {}, "zarr_format": 3, "node_type": "group"}
    scalar_shape = ()
    compounds_have_width = has_binary = True

    def specification(self, path: str) -> HdmfNode | None:
        return self.with_attributes(self.array(NewDataset(path, text, (), Settings(), {}, scalar=True)), {})

    def array(self, new: NewDataset) -> HdmfNode:
        stored_shape = self._stored_shape(new)
        chunks = self._chunks(new)
        reserved: dict[str, Any] = {}
        fill: Any = ""
        memory = new.element.memory_dtype
        compressors = [*new.settings.filter_documents("zarr3"), *new.settings.compressors("zarr3")]
        serializer: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
        data_type: Any = "string"
        if new.element.kind == "compound":
            data_type, fill = _typed(_fixed_width(new.element, max(new.width, MIN_TEXT)), None)
            for member, kind in (
                ("_REFERENCE_FIELDS", "reference"),
                ("_REGION_FIELDS", "region"),
                ("_BYTES_FIELDS", "bytes"),
            ):
                names = [name for name, leaf in leaves_of(new.element) if leaf.kind == kind]
                if names and not isinstance(new.attributes.get(member), dict):
                    reserved[member] = names
        elif new.element.kind == "number":
            data_type, fill = _typed(memory, new.settings.fill_value)
            if memory.itemsize == 1 or memory.type is np.void:
                serializer = {"name": "bytes"}
            reserved["_DTYPE"] = new.element.name
        else:
            serializer = {"name": "vlen-utf8", "configuration": {}}
            words = {
                "text": "str",
                "bytes": "bytes",
                "reference": "object_reference",
                "region": "region_reference",
            }
            reserved["_DTYPE"] = words[new.element.kind]
            if new.binary:  # text is UTF-8
                data_type, serializer = _BINARY, {"name": "vlen-bytes", "configuration": {}}
                if new.settings.fill_value:
                    fill = fill_value_to_zarr3(
                        object_scalar(new.settings.fill_value), DataType("string"), _BINARY
                    )
            elif new.element.kind in ("text", "bytes"):
                fill = text_fill(new.settings.fill_value)
        if new.settings.serializer is not None:
            serializer = codec_document(new.settings.serializer, "zarr3")
        # A filter on arrays comes before the serializer, as in numcodecs.delta.
        width = memory.itemsize if new.element.kind == "number" else 1
        codecs = [_with_typesize(codec, width) for codec in compressors]
        codecs.sort(key=lambda codec: codec["name"] not in _ARRAY_FILTERS)
        codecs.insert(sum(codec["name"] in _ARRAY_FILTERS for codec in codecs), serializer)
        shards = shard_sizes(None if new.scalar else new.settings.shards, stored_shape, chunks, new.itemsize)
        if shards is not None:
            codecs = [_sharding(chunks, codecs)]
        document = {
            "shape": list(stored_shape),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shards or chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": as_written(codecs),
            "attributes": {},
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }
        return self.with_attributes(HdmfNode(new.path, True, document, {}), {**new.attributes, **reserved})

    def documents(self, node: HdmfNode) -> dict[str, bytes]:
        return {"zarr.json": dump_json(node.document, 2, sort=False)}

    def consolidated(self, tree: HdmfTree) -> dict[str, bytes]:
        metadata: dict[str, Any] = {}
        for node in tree.below("/"):
            if node.path == "/":
                continue
            if node.is_array:
                metadata[node.path[1:]] = {
                    k: v for k, v in node.document.items() if k != "consolidated_metadata"
                }
            else:
                copied = node.document.get("attributes", {})
                metadata[node.path[1:]] = _consolidated_group(copied, EMPTY_CONSOLIDATED)
        copies = {**EMPTY_CONSOLIDATED, "metadata": metadata}
        root = _consolidated_group(tree.nodes["/"].attributes, copies)
        return {"zarr.json": dump_json(root, 2, sort=False)}

    def to_stored(self, values: Any, element: Element, array: PhysicalArray) -> npt.NDArray[Any]:
        if element.kind == "bytes" and array.node.document.get("data_type") == _BINARY:
            return as_values(values, element)
        return _to_dtype(values, element, array.dtype)


def _consolidated_group(attributes: dict[str, Any], copies: Any) -> dict[str, Any]:
    return {"attributes": attributes, "zarr_format": 3, "consolidated_metadata": copies, "node_type": "group"}


def _to_dtype(values: Any, element: Element, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    given = as_values(values, element)
    if element.kind in ("number", "text") or element.is_plain:
        return given
    if element.kind != "compound":
        return map_objects(given, lambda value: text_of(value, element))
    out = np.zeros(given.shape, dtype)
    for m in element.members:
        part = given[m.name]
        if m.element.is_plain:
            out[m.name] = part
            continue
        inner = dtype[m.name]
        if m.element.kind == "compound":
            out[m.name] = _to_dtype(part, m.element, inner)
            continue
        texts = map_objects(part, lambda value, m=m: text_of(value, m.element))  # type: ignore[misc]
        listed = texts.reshape(-1).tolist()
        if any(t.endswith("\0") for t in listed):  # as NumPy fills up text of fixed width
            raise InvalidArgumentError(f'member "{m.name}" has text that ends in NUL, which Zarr v3 drops')
        longest = max(map(len, listed), default=0)
        if longest * 4 > inner.itemsize:
            raise InvalidArgumentError(
                f'member "{m.name}" has room for {inner.itemsize // 4} characters, not for {longest}'
            )
        out[m.name] = texts.astype(inner)
    return out


_ARRAY_FILTERS = (
    "numcodecs.delta",
    "numcodecs.fixedscaleoffset",
    "numcodecs.quantize",
    "numcodecs.bitround",
    "numcodecs.astype",
    "numcodecs.packbits",
    "transpose",
    "bitround",
    "cast_value",
    "scale_offset",
)


def _sharding(chunks: tuple[int, ...], codecs: list[dict[str, Any]]) -> dict[str, Any]:
    index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    configuration = {
        "chunk_shape": list(chunks),
        "codecs": codecs,
        "index_codecs": index,
        "index_location": "end",
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def _with_typesize(codec: dict[str, Any], width: int) -> dict[str, Any]:
    """Return a codec with the size of elements that Zarr v3 wants of Blosc."""
    options = codec.get("configuration", {})
    if codec["name"] != "blosc" or options.get("shuffle") == "noshuffle" or "typesize" in options:
        return codec
    return {**codec, "configuration": {**options, "typesize": width}}


def _typed(dtype: np.dtype[Any], fill: Any) -> tuple[Any, Any]:
    """Return the data type and the fill value of a document."""
    known = DataType(dtype)
    data_type = to_zarr3(known)
    if known.kind == "raw":  # as zarr-python, which knows no other name
        data_type = {"name": "raw_bytes", "configuration": {"length_bytes": dtype.itemsize}}
    return data_type, fill_value_to_zarr3(fill_value(fill, dtype), known, data_type)


def _fixed_width(element: Element, width: int) -> np.dtype[Any]:
    """Return the type of records as they are stored: text, and all that is stored as text, of one width."""
    if element.kind == "compound":
        return np.dtype([(m.name, _fixed_width(m.element, width)) for m in element.members])
    return element.memory_dtype if element.kind == "number" else np.dtype(("U", width))


def is_utf8(values: npt.NDArray[Any]) -> bool:
    """Return True if bytes can be stored as text."""
    try:
        for value in values.reshape(-1).tolist():
            value.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(value: Any, element: Element) -> str:
    """Return the text of a value, for places where Zarr v3 has nothing else."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as e:
            raise InvalidArgumentError(
                f"this Zarr v3 dataset stores bytes as text, and {value!r:.80} is not UTF-8: {e}"
            ) from None
    if isinstance(value, Reference):
        if element.kind == "region":
            if value.region is None:
                raise InvalidArgumentError("a region reference has no region")
        elif value.internal and value.region is None:
            return value.path
        return json.dumps(dump_reference(value, full=False), sort_keys=True, separators=(",", ":"))
    return str(value)


def longest_text(values: npt.NDArray[Any], element: Element) -> int:
    """Return the number of characters of the longest text that a compound needs in Zarr v3."""
    longest = 0
    for m in element.members:
        part = values[m.name]
        if m.element.kind == "compound":
            longest = max(longest, longest_text(part, m.element))
        elif not m.element.is_plain:
            texts = (len(text_of(v, m.element)) for v in part.reshape(-1).tolist())
            longest = max(longest, max(texts, default=0))
    return longest
