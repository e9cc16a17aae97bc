"""For programs that look for ``hdmf_zarr`` by name, as ``pynwb.read_nwb`` and nwbinspector do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chunkwise.stand_in import stand_in_for

__all__ = ["install_as_hdmf_zarr"]

_READERS = ("NWBZarrV2IO", "ZarrV2IO", "is_zarr_v2_file")

_MODULES = {
    "hdmf_zarr": ("NWBZarrIO", "ZarrDataIO", "ZarrIO", "IncompleteConversionError", *_READERS),
    "hdmf_zarr.backend": ("ZarrIO",),
    "hdmf_zarr.backend_zarrv2": ("IncompleteConversionError", "ZarrV2IO", "is_zarr_v2_file"),
    "hdmf_zarr.nwb": ("NWBZarrIO",),
    "hdmf_zarr.nwb_zarrv2": ("NWBZarrV2IO",),
    "hdmf_zarr.utils": ("ZarrDataIO",),
}


def _members() -> dict[str, dict[str, Any]]:
    ours = import_module("chunkwise.hdmf")
    readers = import_module("chunkwise.hdmf.backend.zarr2_readers")
    classes = {name: getattr(ours, name) for name in ("NWBZarrIO", "ZarrDataIO", "ZarrIO")}
    classes |= {name: getattr(readers, name) for name in _READERS}
    classes["IncompleteConversionError"] = ours.BrokenLinkError
    return {module: {name: classes[name] for name in names} for module, names in _MODULES.items()}


def install_as_hdmf_zarr() -> None:
    """Let ``import hdmf_zarr`` give the classes of `chunkwise.hdmf`, in this process.

    What ``hdmf_zarr`` 0.13 and 0.14 have for users is found there and in the modules that it comes from:
    ``NWBZarrIO``, ``ZarrIO`` and ``ZarrDataIO``; ``NWBZarrV2IO``, ``ZarrV2IO`` and ``is_zarr_v2_file`` for
    Zarr v2; and ``IncompleteConversionError``, which is `chunkwise.hdmf.BrokenLinkError`.  An hdmf-zarr
    that is installed is not seen any more; its files are left alone.
    Does nothing the second time.

    Raises
    ------
    FailedPreconditionError
        If hdmf-zarr was imported already: there would be classes of both.
    ImportError
        If hdmf or pynwb is missing.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.install_as_hdmf_zarr()
    >>> from hdmf_zarr import NWBZarrIO
    >>> NWBZarrIO.__module__.split(".")[0]
    'chunkwise'
    """
    stand_in_for("hdmf_zarr", "install_as_hdmf_zarr", _members)
