"""HDMF containers and NWB files in Zarr v2, Zarr v3 and N5 stores; needs the extra ``nwb``.

The storage model (`open_store`, `Reference`, regions, safe pickles) needs neither hdmf nor
pynwb.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chunkwise.errors import LossWarning
from chunkwise.extension.inside import missing_name, name_members, needs

if TYPE_CHECKING:
    from chunkwise.hdmf.backend.builder_references import RegionReference
    from chunkwise.hdmf.backend.conversion import convert
    from chunkwise.hdmf.backend.data_io import ZarrDataIO
    from chunkwise.hdmf.backend.io import ZarrIO
    from chunkwise.hdmf.backend.nwb import NWBZarrIO, read_nwb, validate
    from chunkwise.hdmf.model.reference import Reference
    from chunkwise.hdmf.opening import open_store
    from chunkwise.hdmf.pickles.safe_pickle import UnsafePickleError
    from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning
    from chunkwise.hdmf.storage.store import HdmfStore

__all__ = [
    "BrokenLinkError",
    "BrokenLinkWarning",
    "HdmfStore",
    "LossWarning",
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
    "BrokenLinkError": "storage.resolve",
    "BrokenLinkWarning": "storage.resolve",
    "HdmfStore": "storage.store",
    "NWBZarrIO": "backend.nwb",
    "Reference": "model.reference",
    "RegionReference": "backend.builder_references",
    "UnsafePickleError": "pickles.safe_pickle",
    "ZarrDataIO": "backend.data_io",
    "ZarrIO": "backend.io",
    "convert": "backend.conversion",
    "open_store": "opening",
    "read_nwb": "backend.nwb",
    "validate": "backend.nwb",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        missing_name(__name__, name)
    try:
        globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as e:
        package = (e.name or "").partition(".")[0]
        if package in ("hdmf", "pynwb"):
            raise ImportError(needs(f"chunkwise.hdmf.{name}", package)) from e
        raise
    name_members(globals(), [name])
    return globals()[name]
