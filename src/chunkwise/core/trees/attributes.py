"""User attributes of arrays and groups: values as JSON, in each format's location.

NumPy scalars become numbers, text and booleans; arrays, ranges and tuples become lists; bytes that are UTF-8
become text, as h5py's text in HDF5 files does in a copy.  Nothing is guessed: anything else that JSON can't
express is refused, and the error says where in the value it is, and what to make of it.

JSON has no NaN and no infinities.  The caller chooses how to treat them:

===========  =====================================================================================
``error``    They are refused.  The default.
``string``   They become ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as in Zarr v3 fill values.
``literal``  They are written as the bare words ``NaN``, ``Infinity`` and ``-Infinity``, which is what
             zarr-python and hdmf-zarr write.  Strict readers, TensorStore for one, can't read such a
             document at all.
===========  =====================================================================================

In reading, the bare words become numbers, and text stays text.

======  ======================================================
zarr3   member ``attributes`` of ``zarr.json``
zarr2   document ``.zattrs``
zarr1   document ``attrs``
n5      members of ``attributes.json`` beside those of datasets
======  ======================================================

A change is a conditional read-modify-write, so simultaneous changes are not lost.  Copies in consolidated
metadata are then updated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any, Literal, TypeAlias

import numpy as np

from chunkwise.core.base.arguments import check_choice
from chunkwise.core.base.binding import JSON, MOST_GIVEN, dump, load_json
from chunkwise.core.base.extras import is_of
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, TypedAttributes, offers
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.document import change_document, dump_like, read_document
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import Node, find_documented, require_node
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError

__all__ = [
    "NonFinite",
    "add_attributes",
    "attributes_to_json",
    "change_attributes",
    "check_changeable",
    "check_non_finite",
    "first_attributes",
    "has_non_finite",
    "is_text",
    "left_out_attributes",
    "node_attributes",
    "on_trial",
    "read_attributes",
    "to_json_value",
    "with_number_types",
]

NonFinite: TypeAlias = Literal["error", "string", "literal"]

_CHOICES = ("error", "string", "literal")
_HALF = "{!r} has half a surrogate pair, which UTF-8 and strict readers of JSON can't hold"


class _TypeRefusedError(InvalidArgumentError, TypeError):  # as json, h5py and z5py raise it
    pass


def check_non_finite(choice: object) -> NonFinite:
    """Return `choice` if it is one of the words in the table above."""
    check_choice(choice, "non_finite", _CHOICES)
    return choice  # type: ignore[return-value]


def to_json_value(value: Any, where: str, non_finite: NonFinite = "error") -> Any:
    """Return `value` as JSON; raise InvalidArgumentError, which names `where`, if JSON can't hold it."""
    return _Converter(where, non_finite).convert(value, "", 0)


def attributes_to_json(attributes: Mapping[str, Any], non_finite: NonFinite = "error") -> dict[str, JSON]:
    """Return attributes as JSON; raise InvalidArgumentError, which names one that JSON can't hold."""
    if not isinstance(attributes, Mapping):
        raise InvalidArgumentError(f"attributes: expected names and values, not {attributes!r}")
    for name in attributes:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"attributes: they have text as names, not {name!r}")
        if not is_text(name):
            raise InvalidArgumentError(f"attributes: {_HALF.format(name)}")
    return {
        str.__str__(name): to_json_value(value, f"attribute {dump(name)}", non_finite)
        for name, value in attributes.items()
    }


def is_text(value: str) -> bool:
    """Return True unless text has half a surrogate pair, which UTF-8 can't hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_non_finite(value: Any) -> bool:
    """Return True if there is a NaN or an infinity in a JSON value."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(has_non_finite, value.values()))
    return isinstance(value, list) and any(map(has_non_finite, value))


class _Converter:
    def __init__(self, where: str, non_finite: NonFinite) -> None:
        self._where = where
        self._non_finite = non_finite

    def _refuse(
        self, at: str, why: str, error: type[InvalidArgumentError] = InvalidArgumentError
    ) -> InvalidArgumentError:
        return error(f"{self._where}{f' at {at}' if at else ''}: {why}")

    def _refuse_type(self, at: str, kind: str, value: object) -> InvalidArgumentError:
        return self._refuse(at, f"JSON can't hold a {kind}{_advice(value)}", _TypeRefusedError)

    def convert(self, value: Any, at: str, depth: int) -> Any:
        if depth > MOST_GIVEN:
            raise self._refuse(at[:40] + "…", f"nested more than {MOST_GIVEN} deep; does it contain itself?")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self._numpy(value, at, depth)
        if isinstance(value, str):
            return self._text(value, at)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return self._float(float(value), at)
        if isinstance(value, bytes | bytearray):
            return self._bytes(bytes(value), at)
        if isinstance(value, list | tuple | range):
            return [self.convert(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if isinstance(value, Mapping):
            return {self._name(k, at): self.convert(v, _below(at, k), depth + 1) for k, v in value.items()}
        raise self._refuse_type(at, _type_name(value), value)

    def _name(self, name: Any, at: str) -> str:
        if not isinstance(name, str):
            raise self._refuse(at, f"members of JSON objects have text as names, not {name!r}")
        return self._text(name, at)

    def _text(self, value: str, at: str) -> str:
        if not is_text(value):
            raise self._refuse(at, _HALF.format(value))
        return str.__str__(value)

    def _bytes(self, value: bytes, at: str) -> str:
        """Return text for the bytes that h5py gives for text; other bytes are refused."""
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise self._refuse(
                at, f"JSON can't hold bytes that are not text, {value[:20]!r}; make them a list of numbers"
            )
        return text

    def _float(self, value: float, at: str) -> Any:
        if math.isfinite(value) or self._non_finite == "literal":
            return value
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if self._non_finite == "string":
            return name
        raise self._refuse(
            at, f'JSON has no {name}; choose non_finite="string" or "literal" to write it anyway'
        )

    def _numpy(self, value: Any, at: str, depth: int) -> Any:
        kind = value.dtype.kind
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise self._refuse(at, "JSON can't hold a masked array; fill it first")
        if value.ndim and kind in "biufUV" and value.dtype.names is None:
            return [self._numpy(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if value.ndim:
            return [self.convert(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if kind == "O":
            return self.convert(value.item(), at, depth + 1)
        if kind == "b":
            return value.item()
        if kind == "U":
            return self._text(value.item(), at)
        if kind == "S":
            return self._bytes(value.item(), at)
        if kind in "iu":
            return int(value)
        if kind == "f" or np.issubdtype(value.dtype, np.floating) or _is_small_float(value.dtype):
            number = float(value)
            if value.dtype.itemsize > 8 and math.isfinite(number) and value.dtype.type(number) != value:
                raise self._refuse(at, f"{value!r} is not a 64-bit floating-point number; round it first")
            return self._float(number, at)
        raise self._refuse_type(at, f"NumPy value of type {value.dtype}", value)


def _is_small_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "V" and dtype.names is None and "float" in dtype.name


def _below(at: str, name: Any) -> str:
    return f"{at}.{name}" if at else dump(str(name))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _has_text(value: Any) -> bool:
    module = type(value).__module__.partition(".")[0]
    return module in ("datetime", "decimal", "fractions", "pathlib", "uuid") or hasattr(value, "isoformat")


def _advice(value: Any) -> str:
    """Return what to make of a value that JSON can't hold."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, complex) or (isinstance(dtype, np.dtype) and dtype.kind == "c"):
        how = "a list of real and imaginary part"
    elif isinstance(value, set | frozenset):
        how = "a list, such as sorted(value)"
    elif isinstance(value, np.void) and value.dtype.names:
        how = "a dict of names and values"
    elif isinstance(value, np.void):
        how = "a list of numbers, such as list(bytes(value))"
    elif isinstance(value, Enum):
        how = "its value or its name"
    elif isinstance(value, type):
        how = "text, such as the name of a data type"
    elif isinstance(value, slice):
        how = "a list of start and stop"
    elif isinstance(value, np.datetime64 | np.timedelta64 | np.dtype) or _has_text(value):
        how = "text with str()"
    elif is_of(value, "h5py"):
        how = "the name of what it refers to, or None for h5py.Empty"
    elif hasattr(value, "__array__"):
        how = "a list of its elements, or store them as an array"
    else:
        how = "text, numbers, lists or dicts of them"
    return f"; make it {how}"


_Change: TypeAlias = Callable[[dict[str, JSON]], dict[str, JSON]]


def read_attributes(place: str | os.PathLike[str] | Location) -> dict[str, JSON]:
    """Return all attributes of the array or group at `place`."""
    return node_attributes(require_node(locate(place)))


def node_attributes(node: Node) -> dict[str, JSON]:
    """Return all attributes of a node; reads nothing if they are in its document."""
    key = node.rules.attributes_key
    if not key:
        return _user_attributes(node)
    location = node.location
    attributes = read_document(location.store, location.path + key, missing={})
    return _expect_object(attributes, location, key)


def with_number_types(node: Node, attributes: Mapping[str, JSON]) -> dict[str, Any]:
    """Return attributes of a node, with numbers in the types of a file in another format."""
    location = node.location
    types = location.store.number_types(location.path) if offers(location.store, TypedAttributes) else {}
    typed = {name: np.asarray(attributes[name], types[name])[()] for name in types if name in attributes}
    return {**attributes, **typed}


def left_out_attributes(node: Node) -> Mapping[str, str]:
    """Return the attributes in a file of another format that the node lacks, and why."""
    location = node.location
    return location.store.left_out(location.path) if offers(location.store, TypedAttributes) else {}


def _user_attributes(node: Node) -> dict[str, JSON]:
    """Return the attributes in the node's own document, as in Zarr v3 and N5."""
    return node.rules.attributes_of(node.document, node.kind)


@contextmanager
def first_attributes(location: Location, format: str, attributes: Mapping[str, JSON]) -> Iterator[None]:
    """Write the attributes of an array, in formats with a separate document for them, before the block writes
    its metadata; if that fails, delete them again."""
    key = tree_format(format).attributes_key
    if not key or not attributes:
        yield
        return
    kv, key = location.store, location.path + key
    generation = kv.write(key, dump_like(dict(attributes), b""), if_equal=MISSING_GENERATION)
    if generation is None:
        change_document(kv, key, lambda _: dict(attributes))
    try:
        yield
    except BaseException:  # an interrupt too
        if generation is not None:
            with suppress(ChunkwiseError):  # the store may have failed for good
                kv.delete(key, if_equal=generation)
        raise


def _changeable(node: Node) -> Node:
    """Return `node` if it can have attributes, or raise; a group of an N5 container gets a document."""
    if node.undeclared:
        raise FailedPreconditionError(
            f"{node.location.text} is a directory without metadata, which can't have attributes"
        )
    return node


def check_changeable(name: str, node: Node) -> None:
    """Raise InvalidArgumentError if `name` is a member of the document other than an attribute."""
    if name in node.rules.own_members(node.kind):
        is_version = name == node.rules.container_member
        what = "the version of the container" if is_version else "how blocks are stored"
        raise InvalidArgumentError(f"{dump(name)} says {what} and can't be changed as an attribute")


def change_attributes(node: Node, change: _Change) -> dict[str, JSON]:
    """Replace the attributes by ``change(attributes)``, again if they changed meanwhile; return them."""
    node = _changeable(node)
    out: dict[str, JSON] = {}

    def replace(attributes: dict[str, JSON]) -> dict[str, JSON]:
        nonlocal out
        out = change(attributes)
        return out

    _change_attributes(node, replace)
    return out


def on_trial(location: Location) -> Location:
    """Return a location where what is written stays in memory, and is read back."""
    return location._replace(store=PendingStore(location.store, lambda *_: None))


def add_attributes(location: Location, added: Mapping[str, Mapping[str, JSON]]) -> None:
    """Add attributes to nodes at and below a location, by path."""
    for path, attributes in added.items():
        at = location.child(path) if path else location
        change_attributes(require_node(at), lambda own: {**own, **attributes})  # noqa: B023


def _change_attributes(node: Node, change: _Change) -> None:
    location, rules = node.location, node.rules
    key, is_new = rules.attributes_key, not node.key

    def changed(attributes: JSON) -> JSON:
        nonlocal is_new
        is_new = attributes is None
        return change(attributes or {})

    if key:
        _check_there(node)
        change_document(
            location.store,
            location.path + key,
            changed,
            load=lambda raw: _expect_object(load_json(raw), location, key),
        )
    else:
        key = node.key or rules.group_key
        change_document(
            location.store,
            location.path + key,
            lambda document: _with_attributes(node, key, document, change),
            load=rules.load,
        )
    if is_new:
        _check_place(node, key)
    if rules.consolidated_key:
        update_consolidated(location.store, location.path, format=rules.name)


def _check_there(node: Node) -> None:
    """Raise FailedPreconditionError if the document of a node was deleted."""
    location, nothing = node.location, ByteRange(0, 0)  # reading it shows whether the key exists
    if node.key and location.store.read(location.path + node.key, byte_range=nothing).value is None:
        raise FailedPreconditionError(f"{location.text} was deleted meanwhile")


def _check_place(node: Node, key: str) -> None:
    """Delete the first document of attributes again, and raise, if others have deleted the node meanwhile."""
    location = node.location
    written = location.store.read(location.path + key, byte_range=ByteRange(0, 0)).generation
    try:
        _check_there(node)
        parents = () if node.key else location.parents  # of a directory, which may be in an array now
        above = next(filter(None, map(find_documented, parents)), None)
        if above is not None and above.kind == "array":
            raise FailedPreconditionError(f"{location.text} was deleted meanwhile, for an array around it")
    except ChunkwiseError:
        location.store.delete(location.path + key, if_equal=written)
        raise


def _with_attributes(node: Node, key: str, document: JSON, change: _Change) -> JSON:
    """Return the document of a node with its attributes replaced by ``change(attributes)``."""
    location, rules = node.location, node.rules
    if document is None and node.key:
        raise FailedPreconditionError(f"{location.text} was deleted meanwhile")
    document = rules.usual_form(_expect_object({} if document is None else document, location, key))
    member = rules.attributes_member
    if member:
        attributes = change(dict(_expect_object(document.get(member, {}), location, key)))
        return {**document, member: attributes} if member in document or attributes else document
    own = {name: document[name] for name in document if name in rules.own_members(node.kind)}
    after = change({name: value for name, value in document.items() if name not in own})
    for name in after:
        check_changeable(name, node)
    both = {**own, **after}
    merged = {**{name: both[name] for name in document if name in both}, **both}
    if rules.kind_of(key, merged)[0] != node.kind:
        members = [name for name in merged if name in rules.own_members("array")]
        raise InvalidArgumentError(
            f"{location.text}: these attributes would make a dataset of an {rules.title} group: "
            f"{dump(members)}"
        )
    return merged


def _expect_object(value: JSON, location: Location, key: str) -> dict[str, JSON]:
    """Return the value of a document if it is a JSON object."""
    if not isinstance(value, dict):
        name = location.describe(key)
        raise FailedPreconditionError(f"{name}: Expected object, but received: {dump(value)[:80]}")
    return value
