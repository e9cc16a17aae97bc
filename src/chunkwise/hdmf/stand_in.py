"""For programs that look for ``hdmf_zarr`` by name, as ``pynwb.read_nwb`` and nwbinspector do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chunkwise.stand_in import stand_in_for

__all__ = ["install_as_hdmf_zarr"]

_MODULES = {
    "hdmf_zarr": ("NWBZarrIO", "ZarrDataIO", "ZarrIO"),
    "hdmf_zarr.backend": ("ZarrIO",),
    "hdmf_zarr.nwb": ("NWBZarrIO",),
    "hdmf_zarr.utils": ("ZarrDataIO",),
}


def _members() -> dict[str, dict[str, Any]]:
    ours = import_module("chunkwise.hdmf")
    return {module: {name: getattr(ours, name) for name in names} for module, names in _MODULES.items()}


def install_as_hdmf_zarr() -> None:
    """Let ``import hdmf_zarr`` give the classes of `chunkwise.hdmf`, in this process.

    ``NWBZarrIO``, ``ZarrIO`` and ``ZarrDataIO`` are found in ``hdmf_zarr`` and in its modules ``backend``,
    ``nwb`` and ``utils``.  An hdmf-zarr that is installed is not seen any more; its files are left alone.
    Does nothing the second time.

    Raises
    ------
    FailedPreconditionError
        If hdmf-zarr was imported already: there would be classes of both.
    ImportError
        If hdmf or pynwb is missing.
    """
    stand_in_for("hdmf_zarr", "install_as_hdmf_zarr", _members)
