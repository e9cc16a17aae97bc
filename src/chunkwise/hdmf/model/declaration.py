"""Element types and scalars, as the metadata of each convention declare them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chunkwise.errors import ChunkwiseError, DataCorruptionError, FailedPreconditionError, prefix
from chunkwise.hdmf.model.element import (
    BYTES_WORDS,
    REFERENCE_WORDS,
    REGION_WORDS,
    TEXT_WORDS,
    Element,
    bytes_,
    compound,
    element_of_word,
    number,
    reference,
    region,
    text,
)
from chunkwise.hdmf.model.physical import object_filter
from chunkwise.hdmf.model.tree import Format, StoredNode

__all__ = ["Declaration", "declare"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declared element type of an array."""

    # None if only the stored values can tell: objects without a declared type.
    element: Element | None
    # Whether it is one value, whatever its stored shape.
    scalar: bool
    # From a member that holds regions by number to the name of the dataset that holds them.
    indirect: Mapping[str, str] | None = None


def declare(node: StoredNode, format: Format) -> Declaration:
    """Return the declared element type of an array."""
    try:
        if format == "zarr2":
            return _zarr2(node)
        if format == "zarr3":
            return _zarr3(node)
        return _n5(node)
    except ChunkwiseError as e:
        raise prefix(e, f'dataset "{node.path}"') from None


# -- Zarr v2 ------------------------------------------------------------------------------------------


def _zarr2(node: StoredNode) -> Declaration:
    document, word = node.document, node.attributes.get("zarr_dtype")
    scalar = word == "scalar" or node.attributes.get("_SCALAR") is True or document.get("shape") == []
    codec = object_filter(document)
    stored = document.get("dtype")
    if codec == "vlen-utf8":
        return Declaration(text, scalar)
    if codec == "vlen-bytes":
        return Declaration(bytes_, scalar)
    if codec is None:
        element = _zarr2_plain(stored)
        if word is None:
            warnings.warn(
                f'dataset "{node.path}" has no "zarr_dtype"; its stored type is taken', stacklevel=2
            )
        if element.kind == "number" and isinstance(word, str):
            element = number(element.memory_dtype, _agreed(word, element.memory_dtype))
        return Declaration(element, scalar)
    if isinstance(word, list) or word in REFERENCE_WORDS | REGION_WORDS:
        return Declaration(element_of_word(word), scalar)
    # Text without a declared type is a cached specification.
    is_text = (isinstance(word, str) and word in TEXT_WORDS) or (codec == "json2" and scalar)
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


def _zarr2_plain(stored: Any, depth: int = 0) -> Element:
    if isinstance(stored, list) and depth < 16:
        members = []
        for item in stored:
            if not isinstance(item, list) or len(item) != 2 or not isinstance(item[0], str):
                raise FailedPreconditionError(f"Expected [name, dtype], but received: {item!r:.100}")
            members.append((item[0], _zarr2_plain(item[1], depth + 1)))
        return compound(members)
    try:
        dtype = np.dtype(stored)
    except TypeError:
        raise FailedPreconditionError(f"Unsupported zarr dtype: {stored!r:.100}") from None
    if dtype.kind in "US":
        return text if dtype.kind == "U" else bytes_
    return number(dtype)


# -- Zarr v3 ------------------------------------------------------------------------------------------


def _zarr3(node: StoredNode) -> Declaration:
    attributes = node.attributes
    word = attributes.get("_DTYPE", attributes.get("zarr_dtype"))
    stored = node.document.get("data_type")
    scalar = node.document.get("shape") == [] or word == "scalar" or attributes.get("_SCALAR") is True
    name, configuration = _extension(stored)
    if name in ("struct", "structured"):
        indirect = attributes.get("_REGION_FIELDS")
        element = _struct(
            configuration,
            {
                **dict.fromkeys(_names(attributes.get("_BYTES_FIELDS")), bytes_),
                **dict.fromkeys(_names(attributes.get("_REFERENCE_FIELDS")), reference),
                **dict.fromkeys(_names(indirect), region),
            },
        )
        return Declaration(element, scalar, indirect if isinstance(indirect, dict) else None)
    if name in ("string", "fixed_length_utf32", "variable_length_utf8"):
        if isinstance(word, str) and (word in REFERENCE_WORDS | REGION_WORDS):
            return Declaration(element_of_word(word), scalar)
        return Declaration(bytes_ if word in BYTES_WORDS else text, scalar)
    if name in ("variable_length_bytes", "bytes", "null_terminated_bytes"):
        return Declaration(bytes_, scalar)
    return Declaration(_number_named(name, word), scalar)


def _extension(value: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(value, dict):
        configuration = value.get("configuration", {})
        return str(value.get("name")), configuration if isinstance(configuration, dict) else {}
    return str(value), {}


def _names(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [name for name in value if isinstance(name, str)]
    return []


def _struct(configuration: Mapping[str, Any], special: Mapping[str, Element], depth: int = 0) -> Element:
    fields = configuration.get("fields")
    if not isinstance(fields, list) or depth > 16:
        raise FailedPreconditionError(f"Expected fields of a struct, but received: {fields!r:.100}")
    members = []
    for item in fields:
        pair = (item.get("name"), item.get("data_type")) if isinstance(item, dict) else tuple(item)
        if len(pair) != 2 or not isinstance(pair[0], str):
            raise FailedPreconditionError(
                f"Expected a field with name and data_type, but received: {item!r:.100}"
            )
        name, inner = _extension(pair[1])
        if pair[0] in special:
            element = special[pair[0]]
        elif name in ("struct", "structured"):
            element = _struct(inner, {}, depth + 1)
        elif name in ("string", "fixed_length_utf32"):
            element = text
        elif name in ("null_terminated_bytes", "bytes"):
            element = bytes_
        else:
            element = _number_named(name, None)
        members.append((pair[0], element))
    return compound(members)


def _number_named(name: str, word: Any) -> Element:
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise FailedPreconditionError(f'data type "{name[:100]}" is none that HDMF has') from None
    return number(dtype, _agreed(word, dtype) if isinstance(word, str) else "")


# -- N5 -----------------------------------------------------------------------------------------------


def _n5(node: StoredNode) -> Declaration:
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
    stored = str(node.document.get("dataType"))
    if word in ("bool", "float16") and stored in ("uint8", "uint16"):
        return Declaration(number(word, word), scalar)
    return Declaration(_number_named(stored, word), scalar)
