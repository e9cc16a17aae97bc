"""Element types and scalars, as the metadata of each convention declare them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkwise import DataType
from chunkwise.errors import ChunkwiseError, DataCorruptionError, FailedPreconditionError, prefix
from chunkwise.extension.formats import parse_zarr2, parse_zarr3
from chunkwise.extension.n5 import ITEM_NBYTES, dtype_of, parse_array_data_type
from chunkwise.hdmf.model.element import (
    BYTES_WORDS,
    REFERENCE_WORDS,
    REGION_WORDS,
    TEXT_WORDS,
    Element,
    bytes_,
    element_of_word,
    number,
    reference,
    region,
    text,
    with_leaves,
)
from chunkwise.hdmf.model.physical import object_filter
from chunkwise.hdmf.model.tree import Format, HdmfNode
from chunkwise.hdmf.model.values import element_of_dtype

__all__ = ["Declaration", "declare", "n5_type"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared element type of an array."""

    # None if only the stored values can tell: objects without a declared type.
    element: Element | None
    # Whether it is one value, whatever its stored shape.
    scalar: bool
    # From a member that holds regions by number to the name of the dataset that holds them.
    indirect: Mapping[str, str] | None = None


def declare(node: HdmfNode, format: Format) -> Declaration:
    """Return the declared element type of an array."""
    try:
        return {"zarr2": _zarr2, "zarr3": _zarr3, "n5": _n5}[format](node)
    except ChunkwiseError as e:
        raise prefix(e, f'dataset "{node.path}"') from None


# -- Zarr v2 ------------------------------------------------------------------------------------------


def _zarr2(node: HdmfNode) -> Declaration:
    document, word = node.document, node.attributes.get("zarr_dtype")
    scalar = word == "scalar" or node.attributes.get("_SCALAR") is True or document.get("shape") == []
    codec = object_filter(document)
    stored = document.get("dtype")
    if codec == "vlen-utf8":
        return Declaration(text, scalar)
    if codec == "vlen-bytes":
        return Declaration(bytes_, scalar)
    if codec is None:
        element = element_of_dtype(parse_zarr2(stored)[0].memory_dtype)
        if word is None:
            warnings.warn(
                f'dataset "{node.path}" has no "zarr_dtype"; its stored type is taken', stacklevel=2
            )
        if element.kind == "number" and isinstance(word, str):
            element = number(element.memory_dtype, _agreed(word, element.memory_dtype))
        return Declaration(element, scalar)
    name = word if isinstance(word, str) else ""
    if isinstance(word, list) or name in REFERENCE_WORDS | REGION_WORDS:
        return Declaration(element_of_word(word), scalar)
    # Text without a declared type is a cached specification.
    is_text = name in TEXT_WORDS or (codec == "json2" and scalar)
    return Declaration(text if is_text and not isinstance(stored, list) else None, scalar)


def _agreed(word: str, dtype: np.dtype[Any]) -> str:
    """Return the declared name if it means the stored type, which decides; else nothing."""
    if word == "scalar":
        return ""
    try:
        declared = element_of_word(word)
    except DataCorruptionError:
        return ""
    return word if declared.dtype == dtype and word[:1] not in "<>|" else ""


# -- Zarr v3 ------------------------------------------------------------------------------------------


def _zarr3(node: HdmfNode) -> Declaration:
    attributes = node.attributes
    word = attributes.get("_DTYPE", attributes.get("zarr_dtype"))
    dtype = parse_zarr3(node.document.get("data_type"))
    element = _element_of(dtype)
    scalar = node.document.get("shape") == [] or word == "scalar" or attributes.get("_SCALAR") is True
    if element.kind == "compound":
        indirect = attributes.get("_REGION_FIELDS")
        special = {
            **dict.fromkeys(_names(attributes.get("_BYTES_FIELDS")), bytes_),
            **dict.fromkeys(_names(attributes.get("_REFERENCE_FIELDS")), reference),
            **dict.fromkeys(_names(indirect), region),
        }
        return Declaration(
            with_leaves(element, special), scalar, indirect if isinstance(indirect, dict) else None
        )
    if element.kind == "text" and isinstance(word, str):
        if word in REFERENCE_WORDS | REGION_WORDS:
            element = element_of_word(word)
        elif word in BYTES_WORDS:
            element = bytes_
    if element.kind == "number" and isinstance(word, str):
        element = number(element.dtype, _agreed(word, element.memory_dtype))
    return Declaration(element, scalar)


def _element_of(dtype: DataType) -> Element:
    return bytes_ if dtype.kind == "string" else element_of_dtype(dtype.memory_dtype)


def _names(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [name for name in value if isinstance(name, str)]
    return []


# -- N5 -----------------------------------------------------------------------------------------------


def _n5(node: HdmfNode) -> Declaration:
    attributes = node.attributes
    word, scalar = attributes.get("_DTYPE"), attributes.get("_SCALAR") is True
    for marker in ("_ENCODED", "_EMPTY"):
        value = attributes.get(marker)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise FailedPreconditionError(f'Expected object in "{marker}", but received: {value!r:.100}')
        if marker == "_EMPTY":
            return Declaration(element_of_word(value.get("dtype")), False)
        if value.get("version") != 1:
            raise FailedPreconditionError(
                f"encoding version {value.get('version')!r} is not known, expected 1"
            )
        kind = value.get("kind")
        if kind == "compound":
            return Declaration(element_of_word(value.get("fields")), value.get("shape") == [])
        if kind not in ("text", "bytes", "object_reference", "region"):
            raise FailedPreconditionError(f"unknown kind {kind!r} of encoded values")
        return Declaration(element_of_word(kind), value.get("shape") == [])
    element = _element_of(dtype_of(parse_array_data_type(node.document.get("dataType"))))
    if isinstance(word, str) and element.kind == "number":
        with suppress(DataCorruptionError):
            declared = element_of_word(word)
            if declared.dtype is not None and n5_type(declared.dtype) == element.dtype:
                element = declared
    return Declaration(element, scalar)


def n5_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that numbers are stored as in N5: one with the same bits, if N5 lacks theirs."""
    if dtype.name in ITEM_NBYTES or dtype.itemsize not in (1, 2, 4, 8):
        return dtype
    return np.dtype("int64" if dtype.kind in "mM" else f"uint{8 * dtype.itemsize}")
