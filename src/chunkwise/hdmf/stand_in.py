"""For programs that look for ``hdmf_zarr`` by name, as ``pynwb.read_nwb`` and nwbinspector do."""

from __future__ import annotations

from importlib import import_module
from operator import itemgetter
from typing import Any

from chunkwise.extension.inside import stand_in_for

__all__ = ["install_as_hdmf_zarr"]


class ZarrReference(dict[str, Any]):
    """Record of a reference as hdmf-zarr 0.13 and 0.14 make it, which `ZarrIO.resolve_ref` takes."""

    def __init__(
        self,
        source: str | None = None,
        path: str | None = None,
        object_id: str | None = None,
        source_object_id: str | None = None,
    ) -> None:
        super().__init__(source=source, path=path, object_id=object_id, source_object_id=source_object_id)

    source = property(itemgetter("source"))
    path = property(itemgetter("path"))
    object_id = property(itemgetter("object_id"))
    source_object_id = property(itemgetter("source_object_id"))


# By the modules of hdmf-zarr: where each name of theirs is found here.
_MODULES = {
    "hdmf_zarr": {
        **dict.fromkeys(("NWBZarrIO", "ZarrDataIO", "ZarrIO"), ""),
        "IncompleteConversionError": ":BrokenLinkError",
        **dict.fromkeys(("NWBZarrV2IO", "ZarrV2IO", "is_zarr_v2_file"), "backend.nwb"),
    },
    "hdmf_zarr.backend": {
        "ZarrIO": "",
        "ROOT_NAME": "backend.builder_references:ROOT",
        "SPEC_LOC_ATTR": "model.attributes:SPECLOC",
        "DEFAULT_SPEC_LOC_DIR": "backend.schema:GROUP",
    },
    "hdmf_zarr.backend_zarrv2": {
        "IncompleteConversionError": ":BrokenLinkError",
        "UnsafePickleCodecError": "pickles.safe_pickle:UnsafePickleError",
        **dict.fromkeys(("ZarrV2IO", "is_zarr_v2_file"), "backend.nwb"),
    },
    "hdmf_zarr.nwb": {"NWBZarrIO": ""},
    "hdmf_zarr.nwb_zarrv2": {"NWBZarrV2IO": "backend.nwb"},
    "hdmf_zarr.utils": {
        "ZarrDataIO": "",
        "ZarrReference": "stand_in",
        "HDMFZarrArray": "backend.lazy:LazyDataset",
    },
    "hdmf_zarr.zarr_utils": {
        "ZarrDataset": "backend.lazy:LazyDataset",
        "BuilderZarrReferenceDataset": "backend.resolvers:BuilderReferences",
        "BuilderZarrTableDataset": "backend.resolvers:BuilderTable",
        "ContainerZarrReferenceDataset": "backend.resolvers:ContainerReferences",
        "ContainerZarrTableDataset": "backend.resolvers:ContainerTable",
    },
}


def _member(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"chunkwise.hdmf.{module}".rstrip(".")), attribute or name)


def _members() -> dict[str, dict[str, Any]]:
    return {
        module: {name: _member(name, place) for name, place in names.items()}
        for module, names in _MODULES.items()
    }


def install_as_hdmf_zarr() -> None:
    """Let ``import hdmf_zarr`` give the classes of `chunkwise.hdmf`, in this process.

    The public names of ``hdmf_zarr`` 0.13 and 0.14 exist there and in their own modules:
    ``NWBZarrIO``, ``ZarrIO`` and ``ZarrDataIO``; ``NWBZarrV2IO``, ``ZarrV2IO`` and ``is_zarr_v2_file`` for
    Zarr v2; ``IncompleteConversionError``, which is `chunkwise.hdmf.BrokenLinkError`; the names of the root
    and of the cached specifications; and the classes of datasets that programs ask for by ``isinstance``.
    An installed hdmf-zarr is hidden; its files are left alone.
    Does nothing the second time.

    Raises
    ------
    FailedPreconditionError
        If hdmf-zarr was imported already, since there would be classes of both.
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
