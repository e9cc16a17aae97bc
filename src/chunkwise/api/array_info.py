"""What an open array is, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chunkwise.api.array_view import ArrayView

__all__ = ["ArrayInfo", "array_info"]


class ArrayInfo(dict[str, Any]):
    """What is known of an array, by name; its text is a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10} {_text(value)}" for name, value in self.items())

    __str__ = __repr__


def array_info(view: ArrayView) -> ArrayInfo:
    """Return what an array or a view of one is; nothing is read."""
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


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)
