"""The properties of a view of an array as a table: text, and HTML for notebooks."""

from __future__ import annotations

from math import prod
from typing import Any

from chunkwise.core.api.array_view import ArrayView
from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.base.html import chunk_drawing, codec_words, panel, table
from chunkwise.core.engine.estimate import estimate_requests
from chunkwise.core.kvstore.byte_range import open_size
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.plan.plan import plan_read
from chunkwise.core.specs.unit import unit_text

__all__ = ["ArrayInfo", "array_html", "array_info"]

_MOST_LISTED = 1000  # most chunks whose stored size is looked up for display


class ArrayInfo(dict[str, Any]):
    """Properties of an array by name; its text is a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10} {_text(value)}" for name, value in self.items())

    __str__ = __repr__


def array_info(view: ArrayView) -> ArrayInfo:
    """Return the properties of an array or a view of one; nothing is read."""
    spec = view._array.spec()
    out = ArrayInfo(driver=spec.driver)
    if spec.kvstore is not None:
        out["url"] = view.url
    out |= {"shape": view.shape, "dtype": view.dtype.name, "chunks": view.chunks}
    write = view.chunk_layout.write_chunk.shape
    if write is not None and tuple(write) != view.chunks:
        out["shards"] = tuple(write)
    if view.codec is not None:
        out["codec"] = view.codec.to_json()
    fill_value = view.fill_value
    if fill_value is not None:
        out["fill_value"] = fill_value[()]
    if any(view.domain.labels):
        out["labels"] = view.domain.labels
    if any(unit is not None for unit in view.dimension_units):
        out["units"] = tuple(None if unit is None else str(unit) for unit in view.dimension_units)
    return ArrayInfo({**out, "nbytes": view.nbytes})


def array_html(view: ArrayView) -> str:
    """Return HTML of an array for notebooks: its properties, and a drawing of its chunks."""
    info = array_info(view)
    if "units" in info:
        info["units"] = tuple(unit and unit_text(unit) for unit in info["units"])
    if view.codec is not None:
        info["codec"] = codec_words(view.codec.to_json())
    rows: list[tuple[str, object]] = [(name, _text(value)) for name, value in info.items()]
    rows[-1] = ("size", f"{_size(view.nbytes)} in memory")
    chunks = view.chunks
    is_finite = all(dim.finite for dim in view.domain)
    met = _met(view) if is_finite and view.domain != view._array.domain else None
    if met is not None:
        rows.append(("number", f"{met[0]:,} chunks are met"))
        if met[2] is not None:
            rows.append(("stored", f"{_size(met[2])} under the {met[1]:,} keys of these"))
    elif chunks is not None and is_finite:
        n = prod(-(-size // chunk) if chunk else 0 for size, chunk in zip(view.shape, chunks, strict=True))
        rows.append(("number", f"{n:,} chunks"))
        if n <= _MOST_LISTED and _is_near(view) and view.domain == view._array.domain:
            stored = view.nbytes_stored()
            ratio = f", 1:{view.nbytes / stored:.3g}" if stored else ""
            rows.append(("stored", f"{_size(stored)}{ratio}"))
    title = "TensorStore" if view.path in (None, "") else f"TensorStore {view.name}"
    drawing = ""
    if is_finite:
        drawing = chunk_drawing(view.shape, chunks, info.get("shards"), view.domain.labels)
    return panel(title, table(rows), drawing)


def _size(nbytes: int) -> str:
    """Return a number of bytes with three digits and the unit that fits."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def _met(view: ArrayView) -> tuple[int, int, int | None] | None:
    """Return the numbers of chunks and keys that a view meets, and the keys' stored size if storage is near.

    None for arrays without their own chunks.
    """
    array = view._array
    if not isinstance(array, ChunkedArray):
        return None
    transform, stored = array.in_grid(array.bounded(view._transform)), array.stored
    told = estimate_requests(stored, array.store, transform)
    if told.n_objects > _MOST_LISTED or not _is_near(view):
        return told.n_chunks, told.n_objects, None
    keys = plan_read(transform, stored.grid).keys(stored.keys)
    return told.n_chunks, told.n_objects, sum(map(open_size(array.store), keys))


def _is_near(view: ArrayView) -> bool:
    """Return True if listing the stored keys costs next to nothing."""
    node = view._find_node().node
    return node is not None and isinstance(node.location.store, FileStore | MemoryStore)


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)
