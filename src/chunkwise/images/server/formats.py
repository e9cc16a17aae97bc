"""Served arrays and groups in each format, Zarr v3 and N5, their dimensions in the same order.

The stored bytes are passed through where every client can decode them: in Zarr v3 also those of v1 and v2,
which the key encoding ``v2`` finds.  Otherwise chunks are encoded anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chunkwise.copying.array_template import inner_chain
from chunkwise.copying.codec_option import Compressor
from chunkwise.copying.conventions import ome_attributes
from chunkwise.copying.migrate import plan_migration
from chunkwise.errors import ChunkwiseError
from chunkwise.extension import JSON
from chunkwise.extension.formats import ZARR3_FORMAT, parse_codecs
from chunkwise.extension.inside import dump_bytes
from chunkwise.extension.n5 import ITEM_NBYTES, N5_FORMAT
from chunkwise.extension.trees import tree_format
from chunkwise.images.conventions.convention import OME_MEMBERS, Kept, n_images, own_members
from chunkwise.images.conventions.ome import OME_ZARR, ngff_image, omero_of
from chunkwise.images.multiscale.metadata import sized_axes
from chunkwise.images.server.answer import Content, Document, StoredValue
from chunkwise.images.server.encoded import EncodedArray, for_n5, template_for
from chunkwise.images.server.image import ServedImage, arranged, image_of, image_of_group
from chunkwise.images.server.trees import Served, ServedArray, ServedGroup

__all__ = ["DATA_TYPES", "N5", "ZARR3", "ServedFormat"]


class ServedFormat(NamedTuple):
    """A format, as served: its documents, and arrays encoded anew."""

    key: str  # of the documents
    group: Callable[[ServedGroup], dict[str, JSON]]
    passed: Callable[[ServedArray], Mapping[str, JSON] | None]
    """The document with which the stored chunks are sent as they are; None if they can't be."""

    encoded: Callable[[ServedArray], EncodedArray]

    def content(self, node: Served, key: str) -> Content | None:
        """Return the content of `key` of an array or group."""
        if isinstance(node, ServedGroup):
            return Document(dump_bytes(self.group(node))) if key == self.key else None
        passed = self.passed(node)
        if passed is None:
            encoded = node.made.get(self.key)
            if encoded is None:
                encoded = node.made[self.key] = self.encoded(node)
            return Document(encoded.document) if key == self.key else encoded.content(key)
        if key == self.key:
            return Document(dump_bytes(dict(passed)))
        assert node.stored is not None and node.node is not None
        path, stored = node.node.location.path + key, node.stored.stored
        cell = stored.keys.cell(path, stored.grid.rank)
        return None if cell is None else StoredValue(node.node.location.store, path)

    def is_passed(self, array: ServedArray) -> bool:
        """Return True if the stored chunks are sent as they are."""
        return self.passed(array) is not None


# -- Zarr v3 ------------------------------------------------------------------------------------------

_CODECS = frozenset({"bytes", "transpose", "gzip", "zstd", "blosc", "crc32c", "sharding_indexed"})
"""Codecs that zarr-python, TensorStore, zarrita and neuroglancer decode."""

DATA_TYPES: frozenset[str] = frozenset(
    ["bool", "float16", "float32", "float64", "complex64", "complex128"]
    + [f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)]
)
"""Data types of the core specification."""


def _zarr3_group(group: ServedGroup) -> dict[str, JSON]:
    return {"zarr_format": 3, "node_type": "group", "attributes": _attributes(group)}


def _as_zarr3(served: ServedArray) -> EncodedArray:
    template = template_for(served.view, served.attributes, Compressor("zstd", 1))
    return EncodedArray(served.view, template, "zarr3", ZARR3_FORMAT)


def _passed_to_zarr3(served: ServedArray) -> Mapping[str, JSON] | None:
    if "passed" not in served.made:
        served.made["passed"] = _find_document(served)
    found: Mapping[str, JSON] | None = served.made["passed"]
    return found


def _find_document(served: ServedArray) -> Mapping[str, JSON] | None:
    node = served.node
    if node is None or served.stored is None or served.view.dtype.memory_dtype.names is not None:
        return None
    document: Mapping[str, JSON] = node.document
    if node.rules.successor is None:
        return None
    if node.format != node.rules.successor:
        try:
            document = plan_migration(node, keep_old=True).document
        except ChunkwiseError:
            return None
    if document.get("data_type") not in DATA_TYPES or document["chunk_grid"]["name"] != "regular":
        return None
    if document["fill_value"] is None:
        return None
    return document if _all_known(document["codecs"]) else None


def _all_known(codecs: Any) -> bool:
    for codec in parse_codecs(codecs, "zarr3"):
        if codec.name not in _CODECS or getattr(codec, "endian", None) == "big":
            return False
    inner, shard = inner_chain(codecs)
    return inner == list(codecs) or (_all_known(inner) and _all_known(shard.get("index_codecs", ["bytes"])))


def _attributes(group: ServedGroup) -> dict[str, JSON]:
    """Return the attributes, with those of OME-NGFF 0.5 where they are of 0.4, or of a viewer of N5."""
    attributes = dict(group.attributes)
    if own_members(attributes) is not attributes:
        return attributes
    if group.node is None or group.node.rules.has_containers:
        image = image_of_group(group) if group.image is None else image_of(arranged(group.image), group)
        # Levels that are put together, such as those of several times, are no members of the group.
        if image is None or (group.node and any(level.is_computed for level in image.levels)):
            return attributes
        return attributes | _ngff(image)
    out = ome_attributes(attributes, "zarr3", group.name)
    if own_members(out) is out and n_images(out) and (image := image_of_group(group)) is not None:
        return {name: value for name, value in out.items() if name not in OME_MEMBERS} | _ngff(image)
    return out


def _ngff(image: ServedImage) -> dict[str, JSON]:
    """Return an image as OME-NGFF has it, nothing if that can't have its axes."""
    if _ORDER.fullmatch(" ".join(axis.type for axis in image.axes)) is None:
        return {}
    axes = sized_axes(image.axes, image.scales[0])
    levels = list(zip(image.paths, image.scales, image.translations, strict=True))
    entry, kept = ngff_image(image.name, axes, levels), Kept(omero=omero_of(image.channels))
    return OME_ZARR["0.5"].image_attributes(entry, kept, labels=image.is_labels)


_ORDER = re.compile(r"(time )?(channel )?space space( space)?")


# -- N5 -----------------------------------------------------------------------------------------------

_COMPRESSIONS = frozenset({"raw", "gzip", "blosc", "zstd"})
"""Compressions that neuroglancer and TensorStore decode."""

_MEMBER, _VERSION = tree_format("n5").container_member, "4.0.0"


def _n5_group(group: ServedGroup) -> dict[str, JSON]:
    return {
        _MEMBER: _VERSION,
        **{name: value for name, value in group.attributes.items() if value is not None},
    }


def _passed_to_n5(served: ServedArray) -> Mapping[str, JSON] | None:
    node = served.node
    if node is None or node.rules.driver != N5_FORMAT.driver or served.stored is None:
        return None
    document = node.document
    passed = node.rules.compression(document)["type"] in _COMPRESSIONS and document["dataType"] in ITEM_NBYTES
    return document if passed else None


def _as_n5(served: ServedArray) -> EncodedArray:
    view = for_n5(served.view)
    attributes = {
        name: value for name, value in served.attributes.items() if name not in (_MEMBER, "resolution")
    }
    return EncodedArray(view, template_for(view, attributes, Compressor("gzip", 1)), "n5", N5_FORMAT)


ZARR3: ServedFormat = ServedFormat("zarr.json", _zarr3_group, _passed_to_zarr3, _as_zarr3)
N5: ServedFormat = ServedFormat("attributes.json", _n5_group, _passed_to_n5, _as_n5)
