"""Attributes as in z5py: read from the store each time, encoded by a chosen `json.JSONEncoder`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from chunkwise import Attributes
from chunkwise.extension.trees import Node

__all__ = ["AttributeManager", "set_json_decoder", "set_json_encoder"]

_encoder: type[json.JSONEncoder] | None = None
_decoder: type[json.JSONDecoder] | None = None


def set_json_encoder(encoder: type[json.JSONEncoder] | None) -> None:
    """Set the encoder of attributes to JSON; None for the default.

    Raises
    ------
    RuntimeError
        If it is not a class that derives from `json.JSONEncoder`.

    Examples
    --------
    >>> import chunkwise.z5py
    >>> chunkwise.z5py.set_json_encoder(None)
    """
    global _encoder
    if encoder is not None and not (isinstance(encoder, type) and issubclass(encoder, json.JSONEncoder)):
        raise RuntimeError(f"expected a class that derives from json.JSONEncoder, got {encoder!r}")
    _encoder = encoder


def set_json_decoder(decoder: type[json.JSONDecoder] | None) -> None:
    """Set the decoder of attributes from JSON; None for the default.

    Raises
    ------
    RuntimeError
        If it is not a class that derives from `json.JSONDecoder`.

    Examples
    --------
    >>> import chunkwise.z5py
    >>> chunkwise.z5py.set_json_decoder(None)
    """
    global _decoder
    if decoder is not None and not (isinstance(decoder, type) and issubclass(decoder, json.JSONDecoder)):
        raise RuntimeError(f"expected a class that derives from json.JSONDecoder, got {decoder!r}")
    _decoder = decoder


class AttributeManager(MutableMapping[str, Any]):
    """The attributes of a group or dataset.

    In N5 the members that define a dataset are not among them and can't be set; the version of a container is
    among them, but can't be set either.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise.z5py
    >>> attrs = chunkwise.z5py.File(tempfile.mkdtemp() + "/a.n5", "a").attrs
    >>> attrs["resolution"] = (4.0, 4.0)
    >>> dict(attrs)
    {'n5': '2.0.0', 'resolution': [4.0, 4.0]}
    """

    def __init__(self, attributes: Attributes, node: Node, owner: str, *, writable: bool) -> None:
        self._owner = owner  # as it is shown
        self._attributes = attributes
        self._writable = writable
        self._refused = node.rules.own_members(node.kind)
        # The version is shown where z5py shows it: in its own document.
        member = node.rules.container_member
        self._version = {member: node.document[member]} if node.is_container else {}

    def _read(self) -> dict[str, Any]:
        stored = {**self._version, **self._attributes.refresh().asdict()}
        return stored if _decoder is None else json.loads(json.dumps(stored), cls=_decoder)

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        """Remove an attribute; a missing one is not an error."""
        self._check([name], "remove")
        self._attributes.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"<chunkwise.z5py.AttributeManager of {self._owner}>"

    def clear(self) -> None:
        """Remove all attributes that can be changed, with one write."""
        self._check((), "remove")
        self._attributes.clear()

    def update(  # type: ignore[override]
        self, other: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **more: Any
    ) -> None:
        """Set several attributes with one write."""
        values = {**dict(other), **more}
        if _encoder is None:  # names become text, as in z5py
            values = dict(zip(json.loads(json.dumps(dict.fromkeys(values))), values.values(), strict=True))
        else:
            values = json.loads(json.dumps(values, cls=_encoder, allow_nan=False))
        self._check(values, "write")
        self._attributes.update(values)

    def _check(self, names: Iterable[str], what: str) -> None:
        if not self._writable:
            raise ValueError(f"cannot {what} attributes in a file opened for reading")
        refused = [name for name in names if name in self._refused]
        if refused:
            raise RuntimeError(f"cannot {what} {', '.join(refused)}: N5 keeps them for itself")
