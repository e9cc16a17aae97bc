"""N5 containers: directories whose root has the version of the format.

Tools open the container and find datasets below it; some refuse a root without the attribute ``n5``.

Specification: N5 README, "File-system specification", item 3.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.n5.tree import (
    NUMERIC_VERSION,
    STRING_VERSION,
    N5Tree,
    check_version,
    container_key,
    load_document,
    parse_version,
)
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.trees.document import change_document, read_document
from chunkwise.core.trees.location import Location, locate, located
from chunkwise.errors import FailedPreconditionError, PermissionDeniedError, SpecError

__all__ = [
    "CONTAINER_FORMAT",
    "check_container",
    "check_container_of",
    "container_root",
    "create_container",
    "mark_container",
]


CONTAINER_FORMAT: FormatName = N5Tree.name
"""The format that has containers."""

_SUFFIX, _VERSION = N5Tree.suffix, N5Tree.container_member


def container_root(location: Location) -> Location | None:
    """Return the root of the N5 container around `location`, perhaps itself, or None."""
    # The root is the nearest group with a version; failing that, the nearest whose name ends in ".n5".
    named = None
    for at in chain((location,), location.parents):
        try:
            document = read_document(at.store, at.path + "attributes.json", load_document)
        except (PermissionDeniedError, SpecError):  # inaccessible, or not a document of N5
            document = None
        if isinstance(document, dict) and _VERSION in document:
            return at
        if named is None and at.name.endswith(_SUFFIX):
            named = at
    return named


def create_container(
    path: str | os.PathLike[str] | Location,
    *,
    text: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Make an N5 container, or check that an existing one is valid.

    An existing version is kept, like all other attributes.

    Parameters
    ----------
    path : str, path or Location
        The container, conventionally named ``*.n5``.
    text : bool, default False
        Whether it will have datasets of text, which excludes old readers that don't know these.
    storage_options : mapping, optional
        As for `open_group`.

    Raises
    ------
    UnsupportedError
        If it is a container with a version above 4.
    FailedPreconditionError
        If its ``attributes.json`` isn't JSON.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5"
    >>> chunkwise.create_container(path)
    >>> chunkwise.open_group(path).format
    'n5'
    """
    location = locate(*located(storage_options, path))

    def mark(document: JSON) -> JSON:
        document = {} if document is None else document
        if not isinstance(document, dict):
            raise FailedPreconditionError(f"{location.describe('attributes.json')}: Expected object")
        if parse_version(document.get(_VERSION)) is None:
            return {
                _VERSION: STRING_VERSION if text else NUMERIC_VERSION,
                **{k: v for k, v in document.items() if k != _VERSION},
            }
        check_version(document[_VERSION])
        return document

    change_document(location.store, location.path + "attributes.json", mark, load=load_document)


def check_container_of(location: Location, dataset: Mapping[str, JSON]) -> None:
    """Raise UnsupportedError if a dataset is, or its path names, a container with a version above 4."""
    check_version(dataset.get(_VERSION))
    key = container_key(location.path)
    with suppress(PermissionDeniedError):  # only the dataset itself must be readable
        document = None if key is None else read_document(location.store, key, load_document)
        check_version(document.get(_VERSION) if isinstance(document, dict) else None)


def check_container(location: Location) -> None:
    """Raise UnsupportedError if a dataset at `location` would be in a container with a version above 4."""
    root = container_root(location)
    if root is None:
        return
    document = read_document(root.store, root.path + "attributes.json", load_document)
    if isinstance(document, dict):
        check_version(document.get(_VERSION))


def mark_container(location: Location, *, text: bool = False) -> None:
    """Write the version at the root of the container of a new dataset, perhaps of `text`, if any."""
    root = container_root(location)  # must exist already if it is the dataset itself
    if root is not None:
        create_container(root, text=text)
