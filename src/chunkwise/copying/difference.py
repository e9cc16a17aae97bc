"""Differences of two trees or arrays, whatever their formats: nodes, links, metadata, attributes, values.

Metadata is compared by meaning: names and units of dimensions don't count as attributes, in any format, nor
does the version of an N5 container.  Two images in different formats are compared level by level, whatever
the levels are called, and HDMF files by what HDMF means.  Chunks, compression and the format itself are
compared on request.  Values are compared block by block; NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.comparison import ValueDifferences, as_json, compare_small, compare_values, same_json
from chunkwise.copying.conventions import ome_attributes
from chunkwise.copying.copy_source import CopySource, source_of, stored_source, tree_source, with_labels
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.resolve import resolve
from chunkwise.copying.work import TaskRunner
from chunkwise.core.base.arguments import as_nbytes
from chunkwise.core.base.binding import JSON, MISSING, dump
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.link import Link, parse_links, without_links
from chunkwise.core.trees.location import LocationLike, located
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.tree import Tree
from chunkwise.core.trees.walk import walk
from chunkwise.errors import FailedPreconditionError
from chunkwise.extension.inside import RecordList

__all__ = [
    "Comparison",
    "Difference",
    "array_differences",
    "attribute_differences",
    "diff",
    "differences",
    "layout_differences",
    "value_differences",
]

Progress: TypeAlias = Callable[[int], object]
_Read: TypeAlias = "CopySource | dict[str, JSON]"

_AT_ONCE = 32  # nodes that are read, and whose values are compared, at the same time on a server


class Difference(NamedTuple):
    """One difference found by `diff`.

    Attributes
    ----------
    name : str
        Path of the node, from the two that are compared.
    what : str
        "structure", "link", "shape", "dtype", "attribute", "values" and so on.
    left, right : JSON
        Both sides; for values, the first that differ.
    detail : str
        Name of the attribute, or number of values and position of the first.
    """

    name: str
    what: str
    left: JSON
    right: JSON
    detail: str = ""

    def __str__(self) -> str:
        name = self.name or "."
        what = self.what + (f" {self.detail}" if self.detail else "")
        if self.what == "structure":
            return f"{name}: {self.left or 'nothing'} | {self.right or 'nothing'}"
        return f"{name}: {what}: {dump(self.left)} | {dump(self.right)}"


class Comparison(NamedTuple):
    """Two nodes, the stores they are in, and the caller's `progress` in bytes."""

    attributes: bool
    values: bool
    layout: bool
    runner: TaskRunner
    progress: Progress


def diff(
    left: LocationLike,
    right: LocationLike,
    *,
    attributes: bool = True,
    values: bool = True,
    layout: bool = False,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    progress: Callable[[int], object] | bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Difference]:
    """Compare two arrays or trees, whatever their formats.

    Parameters
    ----------
    left, right : str, path-like, Spec, KvStore, KvStore.Spec or JSON
    attributes, values : bool
        Whether these are compared.  Values are equal if NumPy says so, or if both are NaN.
    layout : bool
        Whether format, chunks, fill values and compression are compared.
    executor : concurrent.futures.Executor, optional
        Compares the values, as for `chunkwise.copy`.  By default threads of this process.
    memory : int or str, optional
        Bytes that each process may use for blocks, such as ``"500MB"``; at least a chunk for each task.
    progress : callable or bool
        Called in the calling thread with the bytes that were compared; True shows a bar on stderr.
    storage_options : mapping, optional
        As for `open_group`; used for each side that is a URL of an object store or web server.

    Returns
    -------
    list of Difference
        In the order of the names; empty if there are none.

    Raises
    ------
    NotFoundError
        If there is no array or group.
    FailedPreconditionError
        If metadata can't be read, or a worker doesn't see the arrays.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> _ = chunkwise.create_array(f"{place}/a.zarr", np.arange(6))
    >>> _ = chunkwise.create_array(f"{place}/b.zarr", np.array([0, 1, 2, 9, 4, 5]))
    >>> for difference in chunkwise.diff(f"{place}/a.zarr", f"{place}/b.zarr"):
    ...     print(difference.what)
    values
    """
    check_progress(progress)
    workers = workers_of(executor)
    if memory is not None:
        workers = replace(workers, memory=as_nbytes(memory, "memory"))
    left, right = located(storage_options, left, right)
    with shown_progress(progress, "comparing", None) as told:
        found = differences(
            left,
            right,
            attributes=attributes,
            values=values,
            layout=layout,
            executor=workers,
            progress=told,
        )
        return RecordList(found)


def differences(
    left: LocationLike,
    right: LocationLike,
    *,
    attributes: bool,
    values: bool,
    layout: bool,
    executor: Executor | Workers | None,
    progress: Progress,
) -> Iterator[Difference]:
    """Yield the differences of `diff` as they are found."""
    workers = workers_of(executor)
    with TaskRunner(workers) as runner:
        how = Comparison(attributes, values, layout, runner, progress)
        places = [_found(place) for place in (left, right)]
        if not any(isinstance(place, CopySource) for place in places):
            for kind in ("HDMF files", "images"):
                compare = hooks.find(f"differences of {kind}")
                by_meaning = compare(*places, how)
                if by_meaning is not None:
                    yield from by_meaning
                    return
        nodes = list(map(_nodes, places))
        names = sorted({*nodes[0], *nodes[1]}, key=lambda name: name.split("/"))
        for first in range(0, len(names), _AT_ONCE):
            pairs = [
                (name, nodes[0].get(name), nodes[1].get(name)) for name in names[first : first + _AT_ONCE]
            ]
            ready = _ready(pairs, values and workers.unasked)
            for name, a, b in pairs:
                if name not in ready:
                    yield Difference(name, "structure", a and _kind(a), b and _kind(b))
                    continue
                x, y, known = ready[name]
                if isinstance(x, CopySource) and isinstance(y, CopySource):
                    if not name and attributes and x.template.attributes != y.template.attributes:
                        x, y = with_labels(x), with_labels(y)  # a copy of a level says so by an attribute
                    yield from array_differences(name, x, y, how, known)
                elif isinstance(a, Node) and isinstance(b, Node) and not isinstance(x, CopySource):
                    if layout and a.format != b.format:
                        yield Difference(name, "format", a.format, b.format)
                    assert not isinstance(y, CopySource), "both are groups"
                    yield from _links(name, *map(parse_links, (x, y)))
                    if attributes:
                        yield from attribute_differences(name, *map(without_links, (x, y)))


def _ready(
    pairs: Sequence[tuple[str, Node | CopySource | None, Node | CopySource | None]], values: bool
) -> dict[str, tuple[_Read, _Read, ValueDifferences | None]]:
    """Return arrays and the attributes of groups that are in both trees, and values of small arrays."""
    # On a server, several nodes are read at a time; values only if `values`.
    both = [(name, a, b) for name, a, b in pairs if a is not None and b is not None and _kind(a) == _kind(b)]
    sides = [at for _, *sides in both for at in sides]
    slow = next((at for at in map(_store_of, sides) if is_slow(at)), None)
    read = map_requests(slow, _read, sides)
    found = [(name, read[2 * i], read[2 * i + 1]) for i, (name, *_) in enumerate(both)]

    def compared(sides: tuple[str, _Read, _Read]) -> ValueDifferences | None:
        _, x, y = sides
        if slow is None or not values or not isinstance(x, CopySource) or not isinstance(y, CopySource):
            return None
        same = x.template.shape == y.template.shape and x.template.dtype == y.template.dtype
        return compare_small(x.store, y.store, max(1, _AT_ONCE // len(found))) if same else None

    return {
        name: (x, y, known)
        for (name, x, y), known in zip(found, map_requests(slow, compared, found), strict=True)
    }


def _read(at: Node | CopySource) -> _Read:
    if isinstance(at, CopySource):
        return at
    if at.kind != "array":
        return _group_attributes(at)
    if at.format is None or at.found is None or traits_of(at.location.store).by_reference:
        return stored_source(at.location, at)
    return tree_source(Tree(root=at.location, format=at.format), (), at)


def _store_of(at: Node | CopySource) -> object:
    return at.location.store if isinstance(at, Node) else None


def _found(place: LocationLike) -> Node | CopySource:
    found = resolve(place)
    return found.as_node() if found.array is None else source_of(found)


def _nodes(root: Node | CopySource) -> dict[str, Node | CopySource]:
    if isinstance(root, CopySource):
        return {"": root}
    nodes: dict[str, Node | CopySource] = {}
    for name, node in walk(root):
        if node.error:
            where = node.location.describe(node.key)
            raise FailedPreconditionError(f"{where}: {node.error}")
        nodes[name] = node
    return nodes


def _kind(node: Node | CopySource) -> str:
    return "array" if isinstance(node, CopySource) else node.kind


def _group_attributes(node: Node) -> dict[str, JSON]:
    # OME-Zarr 0.4 and 0.5 say the same.
    attributes = {} if node.implicit else ome_attributes(node_attributes(node), "zarr3", node.location.name)
    version = node.rules.container_member
    return {name: value for name, value in attributes.items() if not version or name != version}


def _links(name: str, a: Mapping[str, Link], b: Mapping[str, Link]) -> Iterator[Difference]:
    for link in sorted({*a, *b}):
        if a.get(link) != b.get(link):
            left, right = (str(links[link]) if link in links else None for links in (a, b))
            yield Difference(f"{name}/{link}" if name else link, "link", left, right)


def array_differences(
    name: str,
    a: Node | CopySource,
    b: Node | CopySource,
    how: Comparison,
    known: ValueDifferences | None = None,
) -> Iterator[Difference]:
    """Yield the differences of two arrays, whose values may have been compared."""
    sources = [at if isinstance(at, CopySource) else stored_source(at.location) for at in (a, b)]
    x, y = (source.template for source in sources)
    if x.shape != y.shape:
        yield Difference(name, "shape", x.shape, y.shape)
    if x.dtype != y.dtype:
        yield Difference(name, "dtype", x.dtype.name, y.dtype.name)
    if how.attributes:
        if any((*x.names, *y.names)) and x.names != y.names:
            yield Difference(name, "dimension_names", x.names, y.names)
        if any((*x.units, *y.units)) and _units(x) != _units(y):
            yield Difference(name, "dimension_units", _units(x), _units(y))
        yield from attribute_differences(name, x.attributes, y.attributes)
    if how.layout:
        yield from layout_differences(name, x, y)
    if how.values and x.shape == y.shape and x.dtype == y.dtype:
        stores = sources[0].store, sources[1].store
        if known is None:
            known = compare_values(*stores, how.runner, how.progress)
        else:
            how.progress(known.nbytes)
        yield from value_differences(name, stores[0].size, known)


def layout_differences(name: str, x: ArrayTemplate, y: ArrayTemplate) -> Iterator[Difference]:
    """Yield differences in how two arrays are stored."""
    if x.format != y.format:
        yield Difference(name, "format", x.format, y.format)
    for what in ("chunks", "shards"):
        if getattr(x, what) != getattr(y, what):
            yield Difference(name, what, getattr(x, what), getattr(y, what))
    if str(x.codec) != str(y.codec):
        yield Difference(name, "codec", str(x.codec), str(y.codec))
    if x.dtype == y.dtype and not same_fill(_fill(x), _fill(y)):
        yield Difference(name, "fill_value", as_json(_fill(x)[()]), as_json(_fill(y)[()]))


def _units(template: ArrayTemplate) -> list[str | None]:
    return [None if unit is None else str(unit) for unit in template.units]


def _fill(template: ArrayTemplate) -> npt.NDArray[Any]:
    return template.dtype.zero() if template.fill_value is None else template.fill_value


def attribute_differences(name: str, a: Mapping[str, JSON], b: Mapping[str, JSON]) -> Iterator[Difference]:
    """Yield the attributes of a node that differ."""
    for key in sorted({*a, *b}):
        left, right = a.get(key, MISSING), b.get(key, MISSING)
        if left is MISSING or right is MISSING or not same_json(left, right):
            left, right = (None if value is MISSING else value for value in (left, right))
            yield Difference(name, "attribute", left, right, dump(key))


def value_differences(name: str, size: int, found: ValueDifferences) -> Iterator[Difference]:
    """Yield one difference if elements differ, with their number and the first of them."""
    if found.first is not None:
        where, x, y = found.first
        detail = f"({found.n_different:,} of {size:,} differ; the first at {where})"
        yield Difference(name, "values", x, y, detail)
