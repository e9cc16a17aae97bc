"""Attributes: JSON values, with references and the NumPy types that JSON loses."""

# JSON keeps integers, floats, booleans, text, lists and null.  The types of other values are written next to
# the attributes, as ``_ATTR_DTYPES``, from name to ``"uint32"``, ``"float32"``, ``"bytes"`` and the like, and
# restored when they are read.  Records are lists there, with their members and shape in ``_ATTR_DTYPES``.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from chunkwise.errors import ChunkwiseError, DataCorruptionError, InvalidArgumentError, prefix
from chunkwise.extension.trees import LINK_ATTRIBUTES, has_non_finite, to_json_value
from chunkwise.hdmf.model.element import Element, bytes_, compound, element_of_word, number, reference, text
from chunkwise.hdmf.model.reference import Reference, parse_reference
from chunkwise.hdmf.model.values import as_values, shape_of

__all__ = [
    "ATTR_DTYPES",
    "REPLACING",
    "RESERVED",
    "SPECLOC",
    "data_type_of",
    "dump_attributes",
    "finite_attributes",
    "is_typed",
    "load_attributes",
    "map_items",
    "object_id_of",
    "references_in",
]

SPECLOC = ".specloc"
"""Attribute of the root that names the group of cached specifications."""

ATTR_DTYPES = "_ATTR_DTYPES"

REPLACING = "_REPLACING"
"""Attribute of the root that names a dataset which is being replaced; see ``replacement``."""

RESERVED = frozenset(
    {
        "zarr_dtype",
        *LINK_ATTRIBUTES,
        "_DTYPE",
        "_REFERENCE",
        "_REFERENCE_FIELDS",
        "_REGION_FIELDS",
        "_BYTES_FIELDS",
        "_SCALAR",
        "_EMPTY",
        "_ENCODED",
        REPLACING,
        ATTR_DTYPES,
        SPECLOC,
    }
)
"""Names reserved for the storage itself; never reported as attributes, and refused for new ones."""

# Types that a JSON number or text comes back as.
_NATURAL = ("int64", "float64", "bool")


def is_typed(attributes: Mapping[str, Any]) -> bool:
    """Return True if an object with these attributes has a data type, so that it becomes a container."""
    return "neurodata_type" in attributes or "data_type" in attributes


def data_type_of(attributes: Mapping[str, Any]) -> Any:
    """Return the data type of an object with these attributes; None if it has none."""
    return attributes.get("neurodata_type", attributes.get("data_type"))


def object_id_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the identity of an object with these attributes; None if it has none."""
    value = attributes.get("object_id")
    return value if isinstance(value, str) else None


def load_attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of users, with references as records."""
    types = stored.get(ATTR_DTYPES)
    out: dict[str, Any] = {}
    for name, value in stored.items():
        if name in RESERVED:
            continue
        if isinstance(value, dict | list):
            try:
                value = _load(value, 0)
            except ChunkwiseError as e:
                raise prefix(e, f'attribute "{name}"') from None
        word = types.get(name) if isinstance(types, dict) else None
        out[name] = value if word is None else _restored(value, word)
    return out


def _load(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        # Lists of plain values are the rule, and may be long.
        if depth > 64 or not any(isinstance(item, dict | list) for item in value):
            return value
        return [_load(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "value" in value and value.get("zarr_dtype") in ("object", "region"):
        return _reference(value["value"], region=value["zarr_dtype"] == "region")
    if set(value) == {"_REFERENCE"}:
        return _reference(value["_REFERENCE"], region=False)
    if set(value) == {"_REGION_REFERENCE"}:
        return _reference(value["_REGION_REFERENCE"], region=True)
    return value if depth > 64 else {name: _load(item, depth + 1) for name, item in value.items()}


def _reference(value: Any, *, region: bool) -> Reference:
    reference = parse_reference(value)
    if region and reference.region is None:
        raise DataCorruptionError("a region reference has no region")
    return reference


def references_in(value: Any) -> Iterator[Reference]:
    """Yield the references in a value of an attribute: it may be one, a list, or records."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, np.ndarray | np.void):
        if value.dtype.hasobject:
            yield from references_in(value.tolist())
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from references_in(item)


def map_items(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a value of an attribute, which may be lists, objects or records, with its items converted."""
    if isinstance(value, list):
        return [map_items(item, convert) for item in value]
    if type(value) is dict:
        return {name: map_items(item, convert) for name, item in value.items()}
    if not isinstance(value, np.ndarray | np.void) or not value.dtype.hasobject:
        return convert(value)
    if value.dtype.names is None:
        return map_items(value.tolist(), convert)
    out = np.array(value, value.dtype, copy=True)  # without a type a record would share its memory
    for name in out.dtype.names or ():
        if out.dtype[name].hasobject:
            for at in np.ndindex(out.shape):
                out[name][at] = map_items(out[name][at], convert)
    return out[()]


def _restored(value: Any, word: Any) -> Any:
    try:
        if isinstance(word, dict):
            shape = tuple(word["shape"])
            element = element_of_word(word["members"])
            rows = _as_rows(value, len(shape), element)
            found = shape_of(rows, _is_row)  # shorter if an axis is empty
            return as_values(rows, element, shape)[()] if found == shape[: len(found)] else value
        if word == "bytes":
            return _as_bytes(value)
        element = element_of_word(word)
        if element.dtype is None or element.dtype.kind not in "biuf":
            return value
        values = as_values(_with_non_finite(value), element)
        return values if isinstance(value, list) else values[()]
    except (KeyError, TypeError, ValueError):
        return value  # written by other software; the JSON value is the best guess


def _as_rows(value: Any, depth: int, element: Element) -> Any:
    """Return lists of that depth with tuples in them, which records are made of."""
    if depth:
        return [_as_rows(item, depth - 1, element) for item in value]
    return tuple(_as_member(item, m.element) for item, m in zip(value, element.members, strict=True))


def _as_member(value: Any, element: Element) -> Any:
    if element.kind == "compound":
        return _as_rows(value, 0, element)
    is_float = element.dtype is not None and element.dtype.kind == "f"
    return _with_non_finite(value) if is_float else value


def _is_row(item: Any) -> bool:
    return isinstance(item, tuple)


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _with_non_finite(value: Any) -> Any:
    """Return lists of numbers with those that `finite_attributes` made text."""
    if isinstance(value, list):
        return [_with_non_finite(item) for item in value]
    return _NON_FINITE.get(value, value) if isinstance(value, str) else value


def _as_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_bytes(item) for item in value]
    return value.encode() if isinstance(value, str) else value


# -- writing ------------------------------------------------------------------------------------------


def dump_attributes(
    attributes: Mapping[str, Any], as_reference: Callable[[Any], Any], keep_types: bool
) -> dict[str, Any]:
    """Return attributes as JSON values."""
    out: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for name, value in attributes.items():
        if name in RESERVED:
            raise InvalidArgumentError(f'attribute name "{name}" is reserved')
        if value is None:
            continue
        out[name] = _dump_attribute(name, value, as_reference)
        word = _lost_type(value, as_reference)
        if word is not None:
            types[name] = word
    if types and keep_types:
        out[ATTR_DTYPES] = types
    return out


def finite_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with NaN and infinities as text, for which JSON has no numbers.

    Strict readers refuse a document with anything else; the type is among those that are restored.
    """
    out = dict(attributes)
    odd = [name for name, value in out.items() if has_non_finite(value)]
    if odd:
        types = dict(out.get(ATTR_DTYPES, {}))
        for name in odd:
            if name not in types and not _is_floats(out[name]):
                raise InvalidArgumentError(
                    f'attribute "{name}": JSON has no NaN and no infinities; only in numbers and in lists of '
                    f"them can they be told from text: {out[name]!r:.100}"
                )
            types.setdefault(name, "float64")
            out[name] = to_json_value(out[name], f'attribute "{name}"', "string")
        out[ATTR_DTYPES] = types
    return out


def _is_floats(value: Any) -> bool:
    """Return True for numbers, and for lists of them that are an array."""
    if isinstance(value, list):
        try:
            return np.asarray(value).dtype.kind == "f"
        except ValueError:  # of different lengths
            return False
    return isinstance(value, float)


def _lost_type(value: Any, as_reference: Callable[[Any], Any]) -> Any:
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, list | tuple) and value:
        words = [_lost_type(item, as_reference) for item in value]
        return words[0] if all(type(word) is str and word == words[0] for word in words) else None
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.names is not None:
            records = np.asarray(value)
            return {"members": _members(records, as_reference).describe(), "shape": list(records.shape)}
        if value.dtype.kind == "S":
            return "bytes"
        if value.dtype.kind in "biuf" and value.dtype.name not in _NATURAL:
            return value.dtype.name
    return None


def _members(records: Any, as_reference: Callable[[Any], Any]) -> Element:
    """Return the type of records; for a member of objects, the first value decides."""
    members = []
    for name in records.dtype.names:
        dtype, column = records.dtype[name], records[name]
        if dtype.names is not None:
            element = _members(column, as_reference)
        elif dtype.kind in "SU":
            element = bytes_ if dtype.kind == "S" else text
        elif dtype.kind != "O":
            element = number(dtype)
        else:
            first = column.reshape(-1)[0] if column.size else None
            element = bytes_ if isinstance(first, bytes) else text
            element = element if as_reference(first) is None else reference
        members.append((name, element))
    return compound(members)


def _dump_attribute(name: str, value: Any, as_reference: Callable[[Any], Any]) -> Any:
    """Return the JSON form of one value."""
    reference = as_reference(value)
    if reference is not None:
        return reference
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biufSUTO" and value.dtype.names is None:
            raise TypeError(f'attribute "{name}" of type {value.dtype} has no JSON form: {value!r:.100}')
        value = value.tolist()
    if isinstance(value, set | frozenset):
        value = list(value)
    if isinstance(value, list | tuple):
        return [_dump_attribute(name, item, as_reference) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as e:
            raise TypeError(f'attribute "{name}" is bytes that are not UTF-8: {value!r:.100} ({e})') from None
    if isinstance(value, Mapping):
        return {str(k): _dump_attribute(name, v, as_reference) for k, v in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f'attribute "{name}" of type {type(value).__name__} has no JSON form: {value!r:.100}')
