"""The three storage conventions as far as writing is concerned: documents of nodes, stored values.

================= ======================== ============================ ============================
what              Zarr v2                  Zarr v3                      N5
================= ======================== ============================ ============================
text              ``|O``, ``vlen-utf8``    ``string``                   encoded group
bytes             ``|O``, ``vlen-bytes``   ``string``, ``_DTYPE bytes`` encoded group
reference         ``|O``, ``json2``        ``string``, a path           encoded group
compound          struct, or JSON rows     ``struct``                   encoded group
scalar            ``[1]``                  ``[]``                       ``[1]``, ``_SCALAR``
================= ======================== ============================ ============================
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.hdmf.chunks import checked_chunks, choose_chunks, choose_shards
from chunkwise.hdmf.codecs import Settings
from chunkwise.hdmf.element import Element
from chunkwise.hdmf.logical import dump_reference, dump_text, map_objects
from chunkwise.hdmf.reference import Reference
from chunkwise.hdmf.tree import Format, StoredNode, Tree
from chunkwise.hdmf.values import as_values

if TYPE_CHECKING:
    from chunkwise.hdmf.dataset import Dataset

__all__ = ["Convention", "convention_of", "longest_text"]

JSON2 = {
    "allow_nan": True,
    "check_circular": True,
    "encoding": "utf-8",
    "ensure_ascii": True,
    "id": "json2",
    "indent": None,
    "separators": [",", ":"],
    "skipkeys": False,
    "sort_keys": True,
    "strict": True,
}

MIN_TEXT = 512
"""Characters of the narrowest text member of a Zarr v3 compound."""

OBJECT_NBYTES = 64
"""What an object counts when chunks are chosen."""


class Convention:
    """One storage convention.

    Attributes
    ----------
    format : {"zarr2", "zarr3", "n5"}
    links_member : str
        Attribute of a group that lists its links.
    scalar_shape : tuple of int
        Stored shape of scalar datasets.
    """

    format: Format
    links_member = "_LINKS"
    scalar_shape: tuple[int, ...] = (1,)

    # -- references -------------------------------------------------------------------------------

    def reference_attribute(self, value: Reference, *, compat: bool = False) -> dict[str, Any]:
        """Return an attribute that is a reference; `compat` concerns regions in Zarr v2."""
        key = "_REFERENCE" if value.region is None else "_REGION_REFERENCE"
        return {key: dump_reference(value, full=False)}

    def link(self, name: str, value: Reference) -> dict[str, Any]:
        """Return an entry of the list of links."""
        return {"source": value.source, "path": value.path, "name": name}

    # -- nodes ------------------------------------------------------------------------------------

    def group(self, path: str, attributes: Mapping[str, Any]) -> StoredNode:
        """Return the node of a group."""
        raise NotImplementedError

    def with_attributes(self, node: StoredNode, attributes: Mapping[str, Any]) -> StoredNode:
        """Return a node with other attributes."""
        raise NotImplementedError

    def array(
        self,
        path: str,
        element: Element,
        shape: Sequence[int],
        settings: Settings,
        attributes: Mapping[str, Any],
        *,
        scalar: bool = False,
        width: int = 0,
        pickled: bool = False,
    ) -> StoredNode:
        """Return the node of a new array.

        Parameters
        ----------
        path : str
        element : Element
        shape : sequence of int
            As users see it.
        settings : Settings
        attributes : mapping
            JSON of the attributes of users; what the storage needs is added.
        scalar : bool
        width : int
            Characters of the longest text in a compound.
        pickled : bool
            Whether references in Zarr v2 are stored in the form that hdmf-zarr writes by default.
        """
        raise NotImplementedError

    def documents(self, node: StoredNode) -> dict[str, bytes]:
        """Return the values to store for a node, by key relative to it."""
        raise NotImplementedError

    def consolidated(self, tree: Tree) -> dict[str, bytes]:
        """Return the documents at the root that hold copies of all others."""
        return {}

    # -- values -----------------------------------------------------------------------------------

    def as_values(self, values: Any, element: Element) -> npt.NDArray[Any]:
        """Return values of users as an array; see :func:`chunkwise.hdmf.values.as_values`."""
        return as_values(values, element)

    def to_stored(self, values: Any, element: Element, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return values of users as they are stored, in an array of `dtype`."""
        raise NotImplementedError

    def append(self, dataset: Dataset, rows: npt.NDArray[Any]) -> None:
        """Add rows to a dataset."""
        physical = dataset.physical
        n = physical.shape[0]
        stored = self.to_stored(rows, dataset.element, physical.dtype)
        physical.resize((n + len(rows), *physical.shape[1:]))
        physical.write(slice(n, n + len(rows)), stored).result()

    # -- shared -----------------------------------------------------------------------------------

    def _stored_shape(self, shape: Sequence[int], scalar: bool) -> tuple[int, ...]:
        return self.scalar_shape if scalar else tuple(int(n) for n in shape)

    @staticmethod
    def _chunks(
        shape: tuple[int, ...], element: Element, settings: Settings, scalar: bool
    ) -> tuple[int, ...]:
        if settings.chunks is not None and not scalar:
            return checked_chunks(settings.chunks, shape)
        return choose_chunks(shape, element.memory_dtype.itemsize if element.is_plain else OBJECT_NBYTES)


def _dump(value: Any, indent: int, *, sort: bool) -> bytes:
    return json.dumps(value, indent=indent, sort_keys=sort, separators=(",", ": ")).encode()


def _record_bytes(fill: Any, dtype: np.dtype[Any]) -> str:
    return base64.b64encode(
        np.zeros((), dtype).tobytes() if fill is None else np.asarray(fill, dtype).tobytes()
    ).decode()


def _json_number(fill: Any, dtype: np.dtype[Any]) -> Any:
    value = np.asarray(0 if fill is None else fill).astype(dtype).item()
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


# -- Zarr v2 ------------------------------------------------------------------------------------------


class Zarr2Convention(Convention):
    """``zarr_dtype``, ``zarr_link``: what hdmf-zarr 0.2 to 0.13 write."""

    format: Format = "zarr2"
    links_member = "zarr_link"

    def reference_attribute(self, value: Reference, *, compat: bool = False) -> dict[str, Any]:
        if value.region is not None and compat:
            return {"_REGION_REFERENCE": dump_reference(value, full=True)}
        word = "object" if value.region is None else "region"
        return {"value": dump_reference(value, full=True), "zarr_dtype": word}

    def link(self, name: str, value: Reference) -> dict[str, Any]:
        return {"name": name, "path": value.path, "source": value.source}

    def group(self, path: str, attributes: Mapping[str, Any]) -> StoredNode:
        return StoredNode(path, False, {"zarr_format": 2}, dict(attributes))

    def with_attributes(self, node: StoredNode, attributes: Mapping[str, Any]) -> StoredNode:
        return StoredNode(node.path, node.is_array, node.document, dict(attributes))

    def array(
        self,
        path: str,
        element: Element,
        shape: Sequence[int],
        settings: Settings,
        attributes: Mapping[str, Any],
        *,
        scalar: bool = False,
        width: int = 0,
        pickled: bool = False,
    ) -> StoredNode:
        if settings.shards is not None:
            raise UnsupportedError("Zarr v2 has no shards")
        if settings.serializer is not None:
            raise UnsupportedError("Zarr v2 has no serializer")
        stored_shape = self._stored_shape(shape, scalar)
        compressors = settings.compressors("zarr2")
        filters = [*settings.filter_documents("zarr2"), *compressors[:-1]]
        fill: Any = 0
        dtype: Any = "|O"
        if element.kind == "text":
            filters.insert(0, {"id": "vlen-utf8"})
        elif element.kind == "bytes":
            filters.insert(0, {"id": "vlen-bytes"})
        elif element.is_plain:
            memory = element.memory_dtype
            dtype = _zarr2_dtype(memory)
            if element.kind == "number":
                fill = _json_number(settings.fill_value, memory)
            else:
                fill = _record_bytes(settings.fill_value, memory.newbyteorder("<"))
        else:
            filters.insert(
                0, {"id": "pickle", "protocol": 5} if pickled and element.kind == "reference" else JSON2
            )
        document = {
            "chunks": list(self._chunks(stored_shape, element, settings, scalar)),
            "compressor": compressors[-1] if compressors else None,
            "dtype": dtype,
            "fill_value": fill,
            "filters": filters or None,
            "order": "C",
            "shape": list(stored_shape),
            "zarr_format": 2,
        }
        reserved: dict[str, Any] = {"zarr_dtype": _zarr2_word(element)}
        if scalar and (element.kind == "compound" or element.has_references):
            reserved["_SCALAR"] = True
        elif scalar:
            reserved["zarr_dtype"] = "scalar"
        return StoredNode(path, True, document, {**attributes, **reserved})

    def documents(self, node: StoredNode) -> dict[str, bytes]:
        out = {".zarray" if node.is_array else ".zgroup": _dump(node.document, 4, sort=True)}
        if node.attributes:
            out[".zattrs"] = _dump(node.attributes, 4, sort=True)
        return out

    def consolidated(self, tree: Tree) -> dict[str, bytes]:
        metadata: dict[str, Any] = {}
        for path, node in tree.nodes.items():
            prefix = "" if path == "/" else path[1:] + "/"
            metadata[prefix + (".zarray" if node.is_array else ".zgroup")] = node.document
            if node.attributes:
                metadata[prefix + ".zattrs"] = node.attributes
        return {".zmetadata": _dump({"metadata": metadata, "zarr_consolidated_format": 1}, 4, sort=True)}

    def to_stored(self, values: Any, element: Element, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        given = as_values(values, element)
        if element.kind in ("number", "text", "bytes") or (element.is_plain and dtype.kind != "O"):
            return given
        return map_objects(given, lambda value: _zarr2_object(value, element))


def _zarr2_dtype(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None or dtype.fields is None:
        return dtype.newbyteorder("<").str
    return [[name, _zarr2_dtype(dtype.fields[name][0])] for name in dtype.names]


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
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


# -- Zarr v3 ------------------------------------------------------------------------------------------


class Zarr3Convention(Convention):
    """``_DTYPE``, ``_LINKS``, ``_REFERENCE``: what hdmf-zarr 0.14 writes."""

    format: Format = "zarr3"
    scalar_shape = ()

    def group(self, path: str, attributes: Mapping[str, Any]) -> StoredNode:
        attributes = dict(attributes)
        return StoredNode(
            path, False, {"attributes": attributes, "zarr_format": 3, "node_type": "group"}, attributes
        )

    def with_attributes(self, node: StoredNode, attributes: Mapping[str, Any]) -> StoredNode:
        attributes = dict(attributes)
        return StoredNode(node.path, node.is_array, {**node.document, "attributes": attributes}, attributes)

    def array(
        self,
        path: str,
        element: Element,
        shape: Sequence[int],
        settings: Settings,
        attributes: Mapping[str, Any],
        *,
        scalar: bool = False,
        width: int = 0,
        pickled: bool = False,
    ) -> StoredNode:
        stored_shape = self._stored_shape(shape, scalar)
        chunks = self._chunks(stored_shape, element, settings, scalar)
        reserved: dict[str, Any] = {}
        fill: Any = ""
        memory = element.memory_dtype
        compressors = [*settings.filter_documents("zarr3"), *settings.compressors("zarr3")]
        serializer: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
        data_type: Any = "string"
        if element.kind == "compound":
            data_type, fill = _struct(element, max(width, MIN_TEXT))
            for member, kind in (
                ("_REFERENCE_FIELDS", "reference"),
                ("_REGION_FIELDS", "region"),
                ("_BYTES_FIELDS", "bytes"),
            ):
                names = [m.name for m in element.members if m.element.kind == kind]
                if names and not isinstance(attributes.get(member), dict):
                    reserved[member] = names
        elif element.kind == "number":
            data_type, fill = memory.name, _json_number(settings.fill_value, memory)
            if memory.itemsize == 1:
                serializer = {"name": "bytes"}
            reserved["_DTYPE"] = element.name
        else:
            serializer = {"name": "vlen-utf8", "configuration": {}}
            words = {
                "text": "str",
                "bytes": "bytes",
                "reference": "object_reference",
                "region": "region_reference",
            }
            reserved["_DTYPE"] = words[element.kind]
        if settings.serializer is not None:
            from chunkwise.hdmf.codecs import codec_document

            serializer = codec_document(settings.serializer, "zarr3")
        # A filter on arrays comes before the serializer, as in numcodecs.delta.
        before, after = _split_filters(compressors)
        codecs = [*before, serializer, *after]
        grid = chunks
        shards = settings.shards if not scalar else None
        if shards is not None:
            size = memory.itemsize if element.is_plain else OBJECT_NBYTES
            if isinstance(shards, str):
                if shards != "auto":
                    raise InvalidArgumentError(f'shards is {shards!r}, but expected a shape or "auto"')
                grid = choose_shards(stored_shape, chunks, size)
            else:
                grid = checked_chunks(shards, stored_shape)
            if any(s % c for s, c in zip(grid, chunks, strict=True)):
                raise InvalidArgumentError(f"shards {grid} are not whole chunks {chunks}")
            index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
            configuration = {
                "chunk_shape": list(chunks),
                "codecs": codecs,
                "index_codecs": index,
                "index_location": "end",
            }
            codecs = [{"name": "sharding_indexed", "configuration": configuration}]
        own = {**attributes, **reserved}
        document = {
            "shape": list(stored_shape),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(grid)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": own,
            "zarr_format": 3,
            "node_type": "array",
            "storage_transformers": [],
        }
        return StoredNode(path, True, document, own)

    def documents(self, node: StoredNode) -> dict[str, bytes]:
        return {"zarr.json": _dump(node.document, 2, sort=False)}

    def consolidated(self, tree: Tree) -> dict[str, bytes]:
        metadata: dict[str, Any] = {}
        for node in tree.below("/"):
            if node.path == "/":
                continue
            document = {k: v for k, v in node.document.items() if k != "consolidated_metadata"}
            if not node.is_array:
                empty = {"kind": "inline", "must_understand": False, "metadata": {}}
                document = {
                    "attributes": document.get("attributes", {}),
                    "zarr_format": 3,
                    "consolidated_metadata": empty,
                    "node_type": "group",
                }
            metadata[node.path[1:]] = document
        root = {
            "attributes": tree.nodes["/"].attributes,
            "zarr_format": 3,
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": metadata},
            "node_type": "group",
        }
        return {"zarr.json": _dump(root, 2, sort=False)}

    def to_stored(self, values: Any, element: Element, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        given = as_values(values, element)
        if element.kind in ("number", "text") or element.is_plain:
            return given
        if element.kind != "compound":
            return map_objects(given, lambda value: _zarr3_text(value, element))
        out = np.zeros(given.shape, dtype)
        for m in element.members:
            part = given[m.name]
            if m.element.is_plain:
                out[m.name] = part
                continue
            inner = dtype[m.name]
            if m.element.kind == "compound":
                out[m.name] = self.to_stored(part, m.element, inner)
                continue
            texts = map_objects(part, lambda value, m=m: _zarr3_text(value, m.element))  # type: ignore[misc]
            longest = max((len(t) for t in texts.reshape(-1).tolist()), default=0)
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


def _split_filters(codecs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    before = [c for c in codecs if c["name"] in _ARRAY_FILTERS]
    return before, [c for c in codecs if c["name"] not in _ARRAY_FILTERS]


def _struct(element: Element, width: int) -> tuple[dict[str, Any], dict[str, Any]]:
    fields, fill = [], {}
    for m in element.members:
        if m.element.kind == "compound":
            data_type, fill[m.name] = _struct(m.element, width)
        elif m.element.kind == "number":
            data_type, fill[m.name] = m.element.memory_dtype.name, _json_number(None, m.element.memory_dtype)  # type: ignore[assignment]
        else:
            data_type = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * width}}
            fill[m.name] = ""  # type: ignore[assignment]
        fields.append({"name": m.name, "data_type": data_type})
    return {"name": "struct", "configuration": {"fields": fields}}, fill


def _zarr3_text(value: Any, element: Element) -> str:
    """Return what stands for a value where Zarr v3 has nothing but text."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as e:
            raise InvalidArgumentError(
                f"Zarr v3 stores bytes as text, and {value!r:.80} is not UTF-8: {e}"
            ) from None
    if isinstance(value, Reference):
        if element.kind == "region":
            return dump_text(value)
        if value.internal:
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
            texts = (len(_zarr3_text(v, m.element)) for v in part.reshape(-1).tolist())
            longest = max(longest, max(texts, default=0))
    return longest


def convention_of(format: Format) -> Convention:
    """Return the convention of a format."""
    if format == "n5":
        from chunkwise.hdmf.n5_convention import N5Convention

        return N5Convention()
    return Zarr2Convention() if format == "zarr2" else Zarr3Convention()
