"""Served arrays and groups as N5, their dimensions in the same order.

The stored blocks are passed through where every client can decode them; otherwise they are encoded anew.
"""

from __future__ import annotations

from chunkwise.copying.codec_option import Compressor
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump_bytes
from chunkwise.extension.n5 import ITEM_NBYTES, N5_FORMAT
from chunkwise.extension.trees import tree_format
from chunkwise.images.server.answer import Content, Document, StoredValue
from chunkwise.images.server.encoded import EncodedArray, for_n5, template_for
from chunkwise.images.server.trees import ServedArray, ServedGroup

__all__ = ["COMPRESSIONS", "KEY", "array_content", "group_content", "is_passed"]

KEY = "attributes.json"
COMPRESSIONS = frozenset({"raw", "gzip", "blosc", "zstd"})
"""Compressions that neuroglancer and TensorStore decode."""

_MEMBER, _VERSION = tree_format("n5").container_member, "4.0.0"


def group_content(group: ServedGroup, key: str) -> Content | None:
    """Return the content of `key` of a group."""
    if key != KEY:
        return None
    attributes = {name: value for name, value in group.attributes.items() if value is not None}
    return Document(dump_bytes({_MEMBER: _VERSION, **attributes}))


def array_content(served: ServedArray, key: str) -> Content | None:
    """Return the content of `key` of an array."""
    if is_passed(served):
        open_array, node = served.stored, served.node
        assert open_array is not None and node is not None
        path = node.location.path + key
        if key == KEY:
            return Document(dump_bytes(dict(node.document)))
        cell = open_array.stored.keys.cell(path, open_array.stored.grid.rank)
        return None if cell is None else StoredValue(node.location.store, path)
    encoded = served.made.get("n5")
    if encoded is None:
        view = for_n5(served.view)
        template = template_for(view, _attributes(served), Compressor("gzip", 1))
        encoded = served.made["n5"] = EncodedArray(view, template, "n5", N5_FORMAT)
    return Document(encoded.document) if key == KEY else encoded.content(key)


def is_passed(served: ServedArray) -> bool:
    """Return True if the stored blocks are sent as they are."""
    node = served.node
    if node is None or node.rules.driver != N5_FORMAT.driver or served.stored is None:
        return False
    document = node.document
    return node.rules.compression(document)["type"] in COMPRESSIONS and document["dataType"] in ITEM_NBYTES


def _attributes(served: ServedArray) -> dict[str, JSON]:
    return {name: value for name, value in served.attributes.items() if name not in (_MEMBER, "resolution")}
