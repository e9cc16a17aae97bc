"""Trees in Zarr v3.

Specification: Zarr core v3.1, "Metadata documents", "Node names", "Extension points".
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.chunk_key import KeyEncoding, default_keys, v2_keys
from chunkwise.core.codec.notation import CodecNotation, notation_of
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.errors import FailedPreconditionError, UnsupportedError

__all__ = ["Zarr3Tree", "inner_chain"]


def inner_chain(codecs: JSON) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
    """Return the chain of the innermost chunks, and the options of the shards around them."""
    chain, shard = list(codecs), {}
    for entry in codecs:
        if isinstance(entry, Mapping) and entry.get("name") == "sharding_indexed":
            options = dict(entry.get("configuration", {}))
            chain, _ = inner_chain(options.pop("codecs", []))
            shard = options
    return chain, shard


_GROUP_MEMBERS = ("zarr_format", "node_type", "attributes", "consolidated_metadata")


class Zarr3Tree(TreeFormat):
    """One ``zarr.json`` for each node, with its attributes, and in a group perhaps copies of those below."""

    name: ClassVar[FormatName] = "zarr3"
    title: ClassVar[str] = "Zarr v3"
    driver: ClassVar[str] = "zarr3"
    array_key: ClassVar[str] = "zarr.json"
    group_key: ClassVar[str] = "zarr.json"
    attributes_member: ClassVar[str] = "attributes"
    documents: ClassVar[tuple[str, ...]] = ("zarr.json",)
    consolidated_key: ClassVar[str] = "zarr.json"
    consolidated_member: ClassVar[str] = "consolidated_metadata"
    codecs: ClassVar[CodecNotation] = notation_of("zarr3")
    has_shards: ClassVar[bool] = True
    names_member: ClassVar[str] = "dimension_names"
    has_null_names: ClassVar[bool] = True
    dimension_attributes: ClassVar[tuple[str, ...]] = ("dimension_units",)
    ngff_version: ClassVar[str] = "0.5"

    def usual_form(self, document: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """Return a document without other programs' forms of empty members."""
        return usual_form(document)

    def kind_of(self, key: str, document: Mapping[str, JSON]) -> tuple[Literal["array", "group"], str]:
        """Return ``node_type``, "group" if it is missing."""
        kind = document.get("node_type")
        if kind == "array":
            return "array", ""
        error = "" if kind == "group" else f'Expected "node_type" of "array" or "group", not {kind!r}'
        return "group", error

    def attributes_of(self, document: Mapping[str, JSON], kind: str) -> dict[str, JSON]:
        """Return the member ``attributes``."""
        attributes = document.get("attributes", {})
        return dict(attributes) if isinstance(attributes, Mapping) else {}

    def float_marker(self, value: float) -> JSON:
        """Return base64 of a little-endian float64, as in xarray."""
        return base64.standard_b64encode(struct.pack("<d", value)).decode()

    def compression(self, document: Mapping[str, JSON]) -> JSON:
        """Return the codecs of the innermost chunks, except the usual ones and checksums."""
        # Codecs that turn elements into bytes are usual, and their order is described elsewhere.
        chain = [e if isinstance(e, Mapping) else {"name": e} for e in inner_chain(document["codecs"])[0]]
        return [entry for entry in chain if entry.get("name") not in ("bytes", "transpose", "crc32c")]

    def key_forms(self, separator: str) -> list[tuple[str, KeyEncoding]]:
        """Return the forms of both names of ``chunk_key_encoding``."""
        forms, options = {"v2": v2_keys, "default": default_keys}, {"separator": separator}
        return [
            (f'"chunk_key_encoding": {name}, separator "{separator}"', form(options))
            for name, form in forms.items()
        ]

    def group_documents(self, attributes: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return ``zarr.json``."""
        return {"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}}

    def check_group(self, document: Mapping[str, JSON], where: str) -> None:
        """Raise for other versions, and for unknown members that must be understood."""
        if document.get("zarr_format") != 3:
            received = dump(document.get("zarr_format"))
            raise FailedPreconditionError(f'{where}: Expected "zarr_format" of 3, but received: {received}')
        if "attributes" in document and not isinstance(document["attributes"], dict):
            received = dump(document["attributes"])[:80]
            raise FailedPreconditionError(f'{where}: "attributes": Expected object, but received: {received}')
        for member, value in document.items():
            if member in _GROUP_MEMBERS:
                continue
            if not (isinstance(value, dict) and value.get("must_understand") is False):
                raise UnsupportedError(
                    f"{where}: Unsupported metadata field {dump(member)} is not marked "
                    '{"must_understand": false}'
                )

    def reserved(self, name: str) -> str:
        """Names that begin with ``__``, or consist only of periods, are reserved."""
        if name.startswith("__"):
            return 'Zarr v3 reserves names that begin with "__"'
        return "" if name.strip(".") else "Zarr v3 has no names of nothing but periods"

    def lists(self, name: str) -> bool:
        """Return False for a reserved name."""
        return not name.startswith("__")
