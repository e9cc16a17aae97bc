"""HDMF containers and NWB files in Zarr v2, Zarr v3 and N5 stores; needs the extra ``nwb``.

The storage model (:func:`open_store`, :class:`Reference`, regions, safe pickles) needs neither hdmf nor
pynwb.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chunkwise.extras import needs

if TYPE_CHECKING:
    from chunkwise.hdmf.conversion import convert
    from chunkwise.hdmf.data_io import ZarrDataIO
    from chunkwise.hdmf.io import ZarrIO
    from chunkwise.hdmf.nwb import NWBZarrIO, read_nwb, validate
    from chunkwise.hdmf.reference import Reference
    from chunkwise.hdmf.region_builder import RegionReference
    from chunkwise.hdmf.resolve import BrokenLinkError, BrokenLinkWarning
    from chunkwise.hdmf.safe_pickle import UnsafePickleError
    from chunkwise.hdmf.store import HdmfStore, open_store

__all__ = [
    "BrokenLinkError",
    "BrokenLinkWarning",
    "HdmfStore",
    "NWBZarrIO",
    "Reference",
    "RegionReference",
    "UnsafePickleError",
    "ZarrDataIO",
    "ZarrIO",
    "convert",
    "open_store",
    "read_nwb",
    "validate",
]

_MODULES = {
    "BrokenLinkError": "resolve",
    "BrokenLinkWarning": "resolve",
    "HdmfStore": "store",
    "NWBZarrIO": "nwb",
    "Reference": "reference",
    "RegionReference": "region_builder",
    "UnsafePickleError": "safe_pickle",
    "ZarrDataIO": "data_io",
    "ZarrIO": "io",
    "convert": "conversion",
    "open_store": "store",
    "read_nwb": "nwb",
    "validate": "nwb",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as e:
        package = (e.name or "").partition(".")[0]
        if package in ("hdmf", "pynwb"):
            raise ImportError(needs(f"chunkwise.hdmf.{name}", package)) from e
        raise
