"""Differences of two trees or arrays, whatever their formats: nodes, links, metadata, attributes, values.

Metadata are compared by meaning: names and units of dimensions are no attributes, in any format, and neither
is the version of an N5 container.  Chunks, compression and the format itself are compared only if asked for.
Values are compared block by block; NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.api.copy import divide
from chunkwise.api.tensorstore import TensorStore
from chunkwise.binding import MISSING, dump
from chunkwise.dtypes.fill_value import same_fill, same_object
from chunkwise.engine.blockwise import n_block_threads
from chunkwise.errors import FailedPreconditionError
from chunkwise.hierarchy.attributes import node_attributes
from chunkwise.hierarchy.link import Link, parse_links, without_links
from chunkwise.hierarchy.location import Location, LocationLike, locate
from chunkwise.hierarchy.node import Node, require_node
from chunkwise.hierarchy.walk import walk
from chunkwise.plan.blocks import Blocks
from chunkwise.tools.array_template import ArrayTemplate, template_of
from chunkwise.tools.copy_check import read_plainly
from chunkwise.tools.executors import Workers, threads_here, workers_of
from chunkwise.tools.new_array import open_array
from chunkwise.tools.visibility import check_array_visible
from chunkwise.tools.work import Crew, Work

__all__ = ["Difference", "diff"]

Progress: TypeAlias = Callable[[int], object]


class Difference(NamedTuple):
    """One difference that `diff` has found.

    Attributes
    ----------
    name : str
        Path of the node, from the two that are compared on.
    what : str
        "structure", "link", "shape", "dtype", "attribute", "values" and so on.
    left, right : JSON
        What there is; of values the first that differ.
    detail : str
        Which attribute; how many values, and where the first is.

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

    name: str
    what: str
    left: Any
    right: Any
    detail: str = ""

    def __str__(self) -> str:
        name = self.name or "."
        what = self.what + (f" {self.detail}" if self.detail else "")
        if self.what == "structure":
            return f"{name}: {self.left or 'nothing'} | {self.right or 'nothing'}"
        return f"{name}: {what}: {dump(self.left)} | {dump(self.right)}"


def diff(
    left: LocationLike,
    right: LocationLike,
    *,
    attributes: bool = True,
    values: bool = True,
    layout: bool = False,
    executor: Executor | Workers | None = None,
    progress: Progress = lambda nbytes: None,
) -> Iterator[Difference]:
    """Compare two arrays or trees, whatever their formats.

    Parameters
    ----------
    left, right : str, path-like, Spec, KvStore, KvStore.Spec or JSON
    attributes, values : bool
        Whether these are compared.  Values are equal if NumPy says so, or if both are NaN.
    layout : bool
        Whether format, chunks, fill values and compression are compared.
    executor : concurrent.futures.Executor, optional
        Who compares values, as for `chunkwise.copy`.  By default threads of this process.
    progress : callable
        Is told the bytes that were compared, in the calling thread.

    Yields
    ------
    Difference
        In the order of the names.

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
    workers = threads_here(n_block_threads()) if executor is None else workers_of(executor)
    return _differences(locate(left), locate(right), attributes, values, layout, workers, progress)


def _differences(
    left: Location,
    right: Location,
    attributes: bool,
    values: bool,
    layout: bool,
    workers: Workers,
    progress: Progress,
) -> Iterator[Difference]:
    """Yield the differences in the order of the names."""
    with Crew(workers) as crew:
        nodes = [_nodes(location) for location in (left, right)]
        for name in sorted({*nodes[0], *nodes[1]}, key=lambda name: name.split("/")):
            a, b = nodes[0].get(name), nodes[1].get(name)
            if a is None or b is None or a.kind != b.kind:
                yield Difference(name, "structure", a and a.kind, b and b.kind)
            elif a.kind == "array":
                yield from _arrays(name, a, b, attributes, values, layout, crew, progress)
            else:
                if layout and a.format != b.format:
                    yield Difference(name, "format", a.format, b.format)
                found = [_group_attributes(node) for node in (a, b)]
                yield from _links(name, *map(parse_links, found))
                if attributes:
                    yield from _attributes(name, *map(without_links, found))


def _nodes(location: Location) -> dict[str, Node]:
    nodes = {}
    for name, node in walk(require_node(location)):
        if node.error:
            where = node.location.describe(node.key)
            raise FailedPreconditionError(f"{where}: {node.error}")
        nodes[name] = node
    return nodes


def _group_attributes(node: Node) -> dict[str, Any]:
    attributes = {} if node.implicit else node_attributes(node)
    return {name: value for name, value in attributes.items() if node.format != "n5" or name != "n5"}


def _links(name: str, a: Mapping[str, Link], b: Mapping[str, Link]) -> Iterator[Difference]:
    for link in sorted({*a, *b}):
        if a.get(link) != b.get(link):
            left, right = (str(links[link]) if link in links else None for links in (a, b))
            yield Difference(f"{name}/{link}" if name else link, "link", left, right)


def _arrays(
    name: str,
    a: Node,
    b: Node,
    attributes: bool,
    values: bool,
    layout: bool,
    crew: Crew,
    progress: Progress,
) -> Iterator[Difference]:
    stores = [open_array(node.location, read=True) for node in (a, b)]
    x, y = (
        template_of(store, node, node_attributes(node)) for store, node in zip(stores, (a, b), strict=True)
    )
    if x.shape != y.shape:
        yield Difference(name, "shape", x.shape, y.shape)
    if x.dtype != y.dtype:
        yield Difference(name, "dtype", x.dtype.name, y.dtype.name)
    if attributes:
        if any((*x.names, *y.names)) and x.names != y.names:
            yield Difference(name, "dimension_names", x.names, y.names)
        if any((*x.units, *y.units)) and _units(x) != _units(y):
            yield Difference(name, "dimension_units", _units(x), _units(y))
        yield from _attributes(name, x.attributes, y.attributes)
    if layout:
        yield from _layouts(name, x, y)
    if values and x.shape == y.shape and x.dtype == y.dtype:
        yield from _values(name, stores[0], stores[1], crew, progress)


def _layouts(name: str, x: ArrayTemplate, y: ArrayTemplate) -> Iterator[Difference]:
    if x.format != y.format:
        yield Difference(name, "format", x.format, y.format)
    for what in ("chunks", "shards"):
        if getattr(x, what) != getattr(y, what):
            yield Difference(name, what, getattr(x, what), getattr(y, what))
    if str(x.codec) != str(y.codec):
        yield Difference(name, "codec", str(x.codec), str(y.codec))
    if x.dtype == y.dtype and not same_fill(_fill(x), _fill(y)):
        yield Difference(name, "fill_value", _json(_fill(x)[()]), _json(_fill(y)[()]))


def _units(template: ArrayTemplate) -> list[str | None]:
    return [None if unit is None else str(unit) for unit in template.units]


def _fill(template: ArrayTemplate) -> npt.NDArray[Any]:
    return template.dtype.zero() if template.fill_value is None else template.fill_value


def _attributes(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    for key in sorted({*a, *b}):
        left, right = a.get(key, MISSING), b.get(key, MISSING)
        if left is MISSING or right is MISSING or not _same(left, right):
            left, right = (None if value is MISSING else value for value in (left, right))
            yield Difference(name, "attribute", left, right, dump(key))


def _same(a: Any, b: Any) -> bool:
    """Return True if two JSON values are the same: 1 is 1.0, but not true; NaN is NaN."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return same_object(a, b)
    return bool(a == b or (a != a and b != b))


def _values(
    name: str, left: TensorStore, right: TensorStore, crew: Crew, progress: Progress
) -> Iterator[Difference]:
    """Yield one difference if any element differs: how many do, and the first of them."""
    n_different = 0
    firsts: list[_First] = []

    def done(start: int, stop: int, found: _Found) -> None:
        nonlocal n_different
        n_different += found.n_different
        if found.first is not None:
            firsts[:] = [min([*firsts, found.first], key=lambda first: first.where)]
        progress(found.nbytes)

    blocks = divide(left, right)
    crew.run(Work("diff", [_DiffStep(left, right, blocks)]), 0, [(0, blocks.n_blocks)], done)
    for first in firsts:
        detail = f"({n_different:,} of {left.size:,} differ; the first at {first.where})"
        yield Difference(name, "values", first.left, first.right, detail)


class _First(NamedTuple):
    where: list[int]
    left: Any  # as JSON
    right: Any


class _Found(NamedTuple):
    nbytes: int
    n_different: int
    first: _First | None


@dataclass
class _DiffStep:
    """Blocks of two arrays that are compared."""

    left: TensorStore
    right: TensorStore
    blocks: Blocks

    @property
    def is_remote(self) -> bool:
        """False: a task reads one chunk after the other."""
        return False

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless both arrays are here as they are where the work was begun."""
        for store in (self.left, self.right):
            check_array_visible(store, "the array")

    def run(self, tasks: Iterable[int]) -> _Found:
        """Compare some blocks."""
        nbytes = n_different = 0
        first: _First | None = None
        fills = [s.dtype.zero() if s.fill_value is None else s.fill_value for s in (self.left, self.right)]
        same_fills = same_fill(*fills)
        for number in tasks:
            block = self.blocks.block(number)
            views = self.left[block], self.right[block]
            if same_fills and all(
                view.storage_statistics(query_not_stored=True).result().not_stored for view in views
            ):
                continue
            x, y = map(read_plainly, views)
            nbytes += x.nbytes
            different = _different(x, y)
            n = int(np.count_nonzero(different))
            if not n:
                continue
            n_different += n
            at = np.unravel_index(int(np.argmax(different)), different.shape)
            where = [int(i) + lo for i, lo in zip(at, block.inclusive_min, strict=True)]
            if first is None or where < first.where:
                first = _First(where, _json(x[at]), _json(y[at]))
        return _Found(nbytes, n_different, first)


def _different(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if x.dtype.names is not None or (x.dtype.kind == "V" and not _is_number(x.dtype)):
        bits = [np.ascontiguousarray(v).reshape(-1).view(np.uint8).reshape(v.size, -1) for v in (x, y)]
        return np.asarray((bits[0] != bits[1]).any(axis=1)).reshape(x.shape)
    if x.dtype.hasobject and y.dtype.hasobject:
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        return np.array([not _same(a, b) for a, b in pairs], bool).reshape(x.shape)
    different = np.asarray(x != y, bool).reshape(x.shape)
    if x.dtype.kind in "fcmMV":
        different &= ~(np.asarray(x != x) & np.asarray(y != y))
    return different


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Return True if a type that NumPy itself doesn't have compares its values, as bfloat16 does."""
    return dtype.isbuiltin == 2


def _json(value: Any) -> Any:
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)
