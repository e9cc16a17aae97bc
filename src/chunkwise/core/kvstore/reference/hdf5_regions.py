"""Regions of HDF5 datasets, in HDMF's form in stores; see `chunkwise.hdmf.model.region`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkwise.core.base.binding import JSON

if TYPE_CHECKING:
    import h5py

__all__ = ["region_json"]


def region_json(file: h5py.File, value: h5py.RegionReference, shape: tuple[int, ...]) -> dict[str, JSON]:
    """Return the region of a reference in an h5py file, for a dataset of the given shape."""
    from h5py import h5r, h5s

    space = h5r.get_region(value, file.id)
    kind = space.get_select_type()
    head: dict[str, JSON] = {"shape": list(shape)}
    if kind == h5s.SEL_ALL:
        return {"type": "all", **head}
    if kind == h5s.SEL_NONE:
        return {"type": "none", "ndim": len(shape), **head}
    if kind == h5s.SEL_POINTS:
        points = [[int(i) for i in point] for point in space.get_select_elem_pointlist()]
        return {"type": "points", "points": points, **head}
    if space.is_regular_hyperslab():
        names = ("start", "stride", "count", "block")
        numbers = [[int(i) for i in part] for part in space.get_regular_hyperslab()]
        return {"type": "hyperslab", **dict(zip(names, numbers, strict=True)), **head}
    blocks = [[[int(i) for i in corner] for corner in box] for box in space.get_select_hyper_blocklist()]
    return {"type": "blocks", "blocks": blocks, **head}
