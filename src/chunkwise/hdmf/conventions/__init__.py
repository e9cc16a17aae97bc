"""Storage conventions: documents of nodes and stored values, one module per format."""

from __future__ import annotations

from chunkwise.hdmf.conventions.base import Convention
from chunkwise.hdmf.conventions.n5 import N5Convention
from chunkwise.hdmf.conventions.zarr2 import Zarr2Convention
from chunkwise.hdmf.conventions.zarr3 import Zarr3Convention
from chunkwise.hdmf.model.tree import Format

__all__ = ["convention_of"]

_CONVENTIONS: dict[Format, type[Convention]] = {
    "n5": N5Convention,
    "zarr2": Zarr2Convention,
    "zarr3": Zarr3Convention,
}


def convention_of(format: Format) -> Convention:
    """Return the convention of a format."""
    return _CONVENTIONS[format]()
