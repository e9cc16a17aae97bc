"""``Attributes`` of an array or group, as a mutable mapping; open arrays as nodes with attributes.

Reading returns copies of the attributes from when the node was opened, or `Attributes.refresh` was last
called.  A change inside a value, such as ``attrs["a"]["b"] = 1``, changes only the copy: assign the value.
Writing changes the attributes that are stored *now*: if several processes change attributes of a node at the
same time, no change is lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from chunkwise.core.base.binding import JSON, MISSING, dump
from chunkwise.core.base.public_names import explains_foreign_names
from chunkwise.core.driver.n5.attribute_path import (
    get_attribute,
    parse_attribute_path,
    remove_attribute,
    set_attribute,
)
from chunkwise.core.driver.tree_formats import FORMATS, tree_format
from chunkwise.core.trees.attributes import (
    NonFinite,
    change_attributes,
    check_non_finite,
    is_text,
    node_attributes,
    to_json_value,
)
from chunkwise.core.trees.location import location_of
from chunkwise.core.trees.node import Node, require_node
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["ArrayNode", "Attributes", "array_node", "with_path"]

_NO_DEFAULT: Any = object()


def _copy(value: Any) -> Any:
    """Return a copy of JSON, however deep."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


@explains_foreign_names("Attributes")
class Attributes(MutableMapping[str, Any]):
    """The attributes of an array or group.

    Values are JSON; see `chunkwise.core.trees.attributes` for the types that are converted.  In N5, the
    version of the container and the members of datasets are not attributes, and can't be set.

    Every change is one atomic conditional write, whatever the number of attributes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> group = chunkwise.create_group(tempfile.mkdtemp() + "/a.zarr", attributes={"subject": "m7"})
    >>> group.attrs["weight"] = 21.5
    >>> group.attrs.asdict()
    {'subject': 'm7', 'weight': 21.5}
    """

    __slots__ = ("_frozen", "_known", "_node", "non_finite")

    def __init__(
        self,
        node: Node | None,
        *,
        known: Mapping[str, Any] | None = None,
        frozen: str = "",
        non_finite: NonFinite = "error",
    ) -> None:
        self._node = node
        self._known = None if known is None else dict(known)
        self._frozen = frozen
        self.non_finite = check_non_finite(non_finite)

    # -- reading --------------------------------------------------------------------------------

    def _all(self) -> dict[str, Any]:
        if self._known is None:
            assert self._node is not None
            self._known = _visible(node_attributes(self._node), self._node)
        return self._known

    def __getitem__(self, name: str) -> Any:
        return _copy(self._all()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def asdict(self) -> dict[str, Any]:
        """Return a copy of all attributes."""
        out: dict[str, Any] = _copy(self._all())
        return out

    def refresh(self) -> Attributes:
        """Read the attributes again, and return them."""
        if self._node is not None:
            self._node = require_node(self._node.location)
            self._known = None
        return self

    def get_path(self, path: str, default: Any = None) -> Any:
        """Return the value at an attribute path, such as ``multiscales[0]/axes``; `default` if it is missing.

        The syntax is that of N5 in every format: `chunkwise.core.driver.n5.attribute_path`.

        Parameters
        ----------
        path : str
            Names of members and numbers of elements.
        default : object
            Returned if there is nothing.
        """
        value = get_attribute(self._all(), path)
        return default if value is MISSING else _copy(value)

    # -- changing -------------------------------------------------------------------------------

    def change(self, function: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Replace all attributes by ``function(attributes)``, applied to the stored ones.

        Parameters
        ----------
        function : callable
            Gets a copy of the attributes and returns the new ones; called again if another writer has changed
            them meanwhile.

        Raises
        ------
        InvalidArgumentError
            If JSON can't hold a value, or the attributes can't be changed.
        FailedPreconditionError
            If the node is gone.

        Examples
        --------
        >>> import chunkwise
        >>> group = chunkwise.create_group("memory://")
        >>> group.attrs.change(lambda attributes: {**attributes, "visits": attributes.get("visits", 0) + 1})
        >>> group.attrs["visits"]
        1
        """
        if self._frozen or self._node is None:
            raise InvalidArgumentError(self._frozen or "this array has no place for attributes")

        def to_json(stored: dict[str, Any]) -> dict[str, Any]:
            return self._checked(function(_copy(stored)), stored)

        self._known = change_attributes(self._node, to_json)

    def _checked(self, attributes: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        out = {}
        for name, value in attributes.items():
            if not isinstance(name, str):
                raise InvalidArgumentError(f"attributes: they have text as names, not {name!r}")
            if name not in stored and not is_text(name):
                raise InvalidArgumentError(f"attributes: {name!r} has half a surrogate pair")
            # Values that others have written stay unchanged.
            is_theirs = name in stored and stored[name] is not None and _same(stored[name], value)
            out[name] = (
                value if is_theirs else to_json_value(value, f"attribute {dump(name)}", self.non_finite)
            )
        return out

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def update(  # type: ignore[override]
        self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
    ) -> None:
        """Set several attributes with one write.

        Parameters
        ----------
        other : mapping of str to JSON
            Attributes to set.
        **more : JSON
            Others, by name.

        Raises
        ------
        InvalidArgumentError
            If a value isn't JSON; nothing is changed.
        """
        new = {**dict(other), **more}
        new = self._checked(new, {})  # checked before reading
        self.change(lambda stored: {**stored, **new})

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes with one write.

        Parameters
        ----------
        attributes : mapping of str to JSON
            All that there will be; arrays and scalars of NumPy become lists and numbers.

        Raises
        ------
        InvalidArgumentError
            If a value isn't JSON; nothing is changed.
        """
        self.change(lambda stored: attributes)

    def clear(self) -> None:
        """Remove all attributes with one write."""
        self.change(lambda stored: {})

    def pop(self, name: str, default: Any = _NO_DEFAULT) -> Any:
        """Remove an attribute and return its value; `default`, or KeyError, if it is missing.

        Parameters
        ----------
        name : str
            An attribute.
        default : object, optional
            Returned if it is missing.

        Returns
        -------
        object

        Raises
        ------
        KeyError
            If it is missing and there is no default.
        """
        found: Any = _NO_DEFAULT

        def without(stored: dict[str, Any]) -> dict[str, Any]:
            nonlocal found
            found = stored.pop(name, _NO_DEFAULT)
            return stored

        self.change(without)
        if found is not _NO_DEFAULT:
            return found
        if default is _NO_DEFAULT:
            raise KeyError(name)
        return default

    def popitem(self) -> tuple[str, Any]:
        """Remove one attribute and return its name and value; KeyError if there is none."""
        found: tuple[str, Any] | None = None

        def without(stored: dict[str, Any]) -> dict[str, Any]:
            nonlocal found
            found = stored.popitem() if stored else None
            return stored

        self.change(without)
        if found is None:
            raise KeyError("there are no attributes")
        return found

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return an attribute, after setting it to `default` if it is missing.

        Parameters
        ----------
        name : str
            An attribute.
        default : JSON
            Stored if it is missing.

        Returns
        -------
        JSON
        """
        value = self._checked({name: default}, {})[name]
        self.change(lambda stored: {name: value, **stored} if name in stored else {**stored, name: value})
        return self[name]

    def set_path(self, path: str, value: Any) -> None:
        """Set the value at an attribute path; parents are created, or replaced if they are of the wrong kind.

        In N5, as in n5-java, null members of objects in the attribute are left out.

        Parameters
        ----------
        path : str
            Names of members and numbers of elements.
        value : JSON, scalar or array of NumPy
            The value to store there.

        Raises
        ------
        InvalidArgumentError
            If a value isn't JSON; nothing is changed.
        """
        json_value = to_json_value(value, f"attribute {dump(path)}", self.non_finite)
        keep_nulls = self._node is None or self._node.rules.keeps_null
        self.change(lambda stored: with_path(stored, path, json_value, keep_nulls=keep_nulls))

    def remove_path(self, path: str) -> None:
        """Remove the value at an attribute path; later elements of an array move up.

        Parameters
        ----------
        path : str
            Names of members and numbers of elements.

        Raises
        ------
        KeyError
            If there is no value.
        """
        was_there = True

        def without(stored: dict[str, Any]) -> dict[str, Any]:
            nonlocal was_there
            after, was_there = remove_attribute(stored, path)
            if not isinstance(after, dict):
                raise InvalidArgumentError(f"{dump(path)} does not begin with the name of an attribute")
            return after

        self.change(without)
        if not was_there:
            raise KeyError(path)

    # -- looks ----------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import brief, panel, table  # only notebooks ask

        return panel("Attributes", table((name, brief(value, 12, 240)) for name, value in self.items()))

    def __repr__(self) -> str:
        return f"Attributes({self._all()!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Attributes):
            return self._all() == other._all()
        return self._all() == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        raise UnsupportedError("attributes can't be pickled; pickle the array or group, or attrs.asdict()")


def with_path(attributes: dict[str, JSON], path: str, value: JSON, *, keep_nulls: bool) -> dict[str, JSON]:
    """Return attributes with a value at an attribute path; see `set_attribute` for `keep_nulls`."""
    first = parse_attribute_path(path)[:1]
    if not first or not isinstance(first[0], str):
        raise InvalidArgumentError(f"{dump(path)} does not begin with the name of an attribute")
    own = {name: attributes[name] for name in first if name in attributes}
    return {**attributes, **set_attribute(own, path, value, keep_nulls=keep_nulls)}


def _visible(attributes: Mapping[str, Any], node: Node) -> dict[str, Any]:
    hidden = node.rules.own_members(node.kind)
    return {name: value for name, value in attributes.items() if name not in hidden}


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(json.dumps(a) == json.dumps(b))
    except (TypeError, ValueError):
        return False


class ArrayNode:
    """Node, path and attributes of an open array; no node if it is not stored anywhere."""

    __slots__ = ("attributes", "node", "path")

    def __init__(self, node: Node | None, path: str | None, attributes: Attributes | None = None) -> None:
        self.node = node
        self.path = path
        if attributes is None:
            frozen = "" if node is not None else "this array has no place for attributes"
            attributes = Attributes(node, known={} if node is None else None, frozen=frozen)
        self.attributes = attributes

    @property
    def name(self) -> str | None:
        """The path with a "/" in front."""
        return None if self.path is None else "/" + self.path


def array_node(array: Any, path: str = "", *, writable: bool = True) -> ArrayNode:
    """Return the node of an open array, whose path from the root of its tree is `path`."""
    spec = array.spec() if hasattr(type(array), "document") else None  # a stack's spec has all its layers
    format = None if spec is None else FORMATS.get(spec.driver)
    if spec is None or format is None or spec.kvstore is None:
        return ArrayNode(None, None)
    location = location_of(spec.kvstore)
    node = Node(location, format, "array", tree_format(format).array_key, array.document)
    frozen = (
        ""
        if writable
        else (f'{location.text} was opened for reading only; open it with chunkwise.open_array(path, "r+")')
    )
    return ArrayNode(node, path, Attributes(node, frozen=frozen))
