"""N5 URIs, as in n5-java and related libraries: ``n5://container?group#attribute``.

The container is a path or a URL, with or without ``n5:`` or ``n5://`` in front.  A URI names a group, an
array, or a value in their attributes.

Specification: n5-java 4, ``N5URI``.  Characters that URIs forbid, such as spaces, are accepted; percent
escapes are decoded in the attribute only.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

from chunkwise.copying.new_array import open_node
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import MISSING, dump
from chunkwise.core.driver.n5.attribute_path import normalize_group_path
from chunkwise.core.specs.context import Context
from chunkwise.errors import InvalidArgumentError, NodeNotFoundError
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import Mode, open_group

__all__ = ["N5Uri", "open_n5_uri", "parse_container", "parse_n5_uri"]


class N5Uri(NamedTuple):
    """A location in an N5 container."""

    container: str  # URI or path of the container; empty if the URI is relative to one
    group: str | None = None  # path of a group as written, None if there is none, which means the root
    # Attribute path as written, None if there is none, which means all attributes.
    attribute: str | None = None

    def __str__(self) -> str:
        group = "" if self.group is None else f"?{self.group}"
        attribute = "" if self.attribute is None else f"#{self.attribute}"
        return f"{self.container}{group}{attribute}"


def parse_n5_uri(text: str) -> N5Uri:
    """Split ``container?group#attribute`` at the last ``#`` and the first ``?`` before it."""
    before, hash_mark, attribute = text.rpartition("#")
    if not hash_mark:
        before = text
    container, question_mark, group = before.partition("?")
    return N5Uri(
        container,
        group if question_mark else None,
        unquote(attribute) if hash_mark else None,
    )


def parse_container(uri: str) -> N5Uri:
    """Split an N5 URI; its container becomes a path or URL that can be opened, without ``n5:``."""
    parsed = parse_n5_uri(uri)
    container = parsed.container
    for word in ("n5://", "n5:"):
        if container.startswith(word):
            container = container[len(word) :]
            break
    if not container:
        raise InvalidArgumentError(f"the N5 URI {dump(uri)} names no container")
    return parsed._replace(container=container)


def open_n5_uri(uri: str, mode: Mode = "r", *, context: Context | None = None) -> Group | TensorStore | Any:
    """Open what an N5 URI names.

    Parameters
    ----------
    uri : str
    mode : {"r", "r+"}
    context : Context, optional

    Returns
    -------
    Group, TensorStore or JSON value
        The value, if the URI names an attribute; ``#/`` means all attributes.

    Raises
    ------
    NodeNotFoundError
        If there is no such group, array or attribute.
    InvalidArgumentError
        If the URI leads out of its container.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/data.n5"
    >>> group = chunkwise.create_group(path)
    >>> group.create_group("raw", attributes={"scales": [[1, 1], [2, 2]]}).path
    'raw'
    >>> chunkwise.open_n5_uri(f"n5://{path}?raw#scales[1]")
    [2, 2]
    """
    if mode not in ("r", "r+"):
        raise InvalidArgumentError(f'mode: expected "r" or "r+", not {mode!r}; an N5 URI names existing data')
    parsed = parse_container(uri)
    path = normalize_group_path(parsed.group or "")
    root = open_group(parsed.container, mode, format="n5", context=context)
    node: Group | TensorStore
    if path:
        node = root[path]
    elif root._node.kind == "array":  # a container that is a dataset itself
        node = open_node(root._tree, (), root._node)
    else:
        node = root
    if parsed.attribute is None:
        return node
    value = node.attrs.get_path(parsed.attribute, MISSING)
    if value is MISSING:
        raise NodeNotFoundError(f"there is no attribute {dump(parsed.attribute)} at {uri}")
    return value
