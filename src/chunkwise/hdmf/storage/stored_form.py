"""Stored form of a dataset: its codecs and sizes, and the settings of a copy."""

from __future__ import annotations

import warnings
from typing import Any

import numcodecs

from chunkwise.errors import ChunkwiseError
from chunkwise.extension.inside import ArrayInfo
from chunkwise.extension.inside import stored_nbytes as below_nbytes
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.model.codecs import Settings, codec_document
from chunkwise.hdmf.model.tree import Format
from chunkwise.hdmf.storage.store import Dataset

__all__ = ["codec_objects", "dataset_info", "stored_codecs", "stored_nbytes", "stored_settings"]

_OBJECT_CODECS = ("vlen-utf8", "vlen-bytes", "json2", "pickle", "msgpack2")
_SERIALIZERS = ("bytes", "vlen-utf8", "vlen-bytes")


def stored_codecs(dataset: Dataset) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the filters and the compressors of a dataset, as its document has them."""
    document = dataset.store.tree.nodes[dataset.path].document
    if not dataset.is_array:
        return [], []
    rules = tree_format(dataset.store.format)
    if not rules.codecs.is_chain:
        found = rules.compression(document)
        is_none = found is None or found.get(rules.codecs.name_member) == rules.codecs.no_compressor
        listed = document.get("filters") if rules.codecs.has_filters else None
        return [f for f in listed or [] if f.get("id") not in _OBJECT_CODECS], [] if is_none else [found]
    codecs = document.get("codecs", [])
    if codecs and codecs[0].get("name") == "sharding_indexed":
        codecs = codecs[0].get("configuration", {}).get("codecs", [])
    at = next((i for i, codec in enumerate(codecs) if codec.get("name") in _SERIALIZERS), 0)
    return codecs[:at], codecs[at + 1 :]


def codec_objects(documents: list[dict[str, Any]]) -> list[Any]:
    """Return objects of numcodecs for codecs; the document itself where numcodecs has no such codec."""
    return [_object(document) for document in documents]


def _object(document: dict[str, Any]) -> Any:
    try:
        return numcodecs.get_codec(codec_document(document, "zarr2"))
    except (ChunkwiseError, ValueError, TypeError):
        return document


def stored_nbytes(dataset: Dataset) -> int:
    """Return the stored size of a dataset in bytes, with its documents; lists its keys."""
    location = dataset.store.location
    return below_nbytes(location.store, location.path + dataset.store.tree.nodes[dataset.path].prefix)


def dataset_info(dataset: Dataset) -> ArrayInfo:
    """Return the properties of a dataset: a mapping, whose text is a table."""
    filters, compressors = stored_codecs(dataset)
    facts = {
        "name": dataset.path,
        "format": dataset.store.format,
        "dtype": dataset.element.name,
        "shape": dataset.shape,
        "chunks": dataset.chunks,
        "shards": dataset.shards,
        "filters": filters or None,
        "compressors": compressors or None,
        "nbytes": dataset.nbytes,
        "nbytes_stored": stored_nbytes(dataset),
    }
    return ArrayInfo({name: value for name, value in facts.items() if value is not None})


def stored_settings(source: Dataset, format: Format) -> Settings:
    """Return the storage settings of a dataset, as far as `format` has the same."""
    if not source.is_array or source.scalar:
        return Settings()
    plain = source.element.is_plain
    chunks = source.physical.inner_chunk_shape if plain else None
    filters, compressors = stored_codecs(source)
    return Settings(
        chunks=chunks,
        shards=source.physical.chunk_shape
        if plain and source.physical.stored.shard and tree_format(format).has_shards
        else None,
        compressor=_translated([*filters, *compressors], format),
        fill_value=source.physical.stored.fill_value[()]
        if source.element.kind == "number"
        and tree_format(format).has_fill_value
        and source.physical.dtype == source.element.dtype
        else None,
    )


def _translated(listed: list[Any], format: Format) -> Any:
    if not listed:
        return None
    if not tree_format(format).codecs.has_filters:
        listed = listed[-1:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [codec_document(codec, format) for codec in listed]
    except ChunkwiseError:
        return True
