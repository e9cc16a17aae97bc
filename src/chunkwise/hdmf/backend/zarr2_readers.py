"""hdmf-zarr 0.14's classes for Zarr v2 files, which `ZarrIO` reads like all others."""

from __future__ import annotations

from typing import Any

from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.hdmf.backend.io import ZarrIO
from chunkwise.hdmf.backend.nwb import NWBZarrIO
from chunkwise.hdmf.model.place import Place, place_of, with_storage_options
from chunkwise.hdmf.model.tree import detect_format
from chunkwise.hdmf.storage.resolve import BrokenLinkError

__all__ = ["NWBZarrV2IO", "ZarrV2IO", "is_zarr_v2_file"]


def is_zarr_v2_file(path: Place, storage_options: dict[str, Any] | None = None) -> bool:
    """Return True if there is a Zarr v2 array or group at a path or URL; never raises."""
    try:
        return detect_format(place_of(with_storage_options(path, storage_options))) == "zarr2"
    except (ChunkwiseError, OSError):
        return False


class ZarrV2IO(ZarrIO):
    """Reads HDMF containers in Zarr v2.

    Parameters
    ----------
    path : str, path or KvStore
    mode : {"r", "r-"}
    manager, storage_options
        As for `ZarrIO`.
    allow_pickle : bool
        A permission that hdmf-zarr asks for.  It is never used: pickles are read without executing them.
    **options
        Others of `ZarrIO`.

    Raises
    ------
    InvalidArgumentError
        For a mode that writes, and for a store of another format.
    """

    def __init__(
        self,
        path: Place,
        mode: str = "r",
        manager: Any = None,
        storage_options: dict[str, Any] | None = None,
        *,
        allow_pickle: bool = False,
        **options: Any,
    ) -> None:
        if mode not in ("r", "r-"):
            raise InvalidArgumentError(
                f"{type(self).__name__} only reads; mode is {mode!r}, but must be r or r-"
            )
        super().__init__(path, mode, manager, storage_options, **options)
        self.allow_pickle = allow_pickle
        if self.store.format != "zarr2":
            found = self.store.format
            self.close()
            raise InvalidArgumentError(f"{self.source} is {found}, but {type(self).__name__} reads zarr2")


class NWBZarrV2IO(ZarrV2IO, NWBZarrIO):
    """Reads NWB files in Zarr v2; parameters are those of `ZarrV2IO` and `NWBZarrIO`."""

    def export_to_v3(
        self,
        path: Place,
        nwbfile: Any = None,
        write_args: dict[str, Any] | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        """Write the file, as stored or as modified since it was read, as Zarr v3; data is copied.

        Parameters
        ----------
        path : str, path or KvStore
            Target; an existing store is replaced.
        nwbfile : NWBFile, optional
        write_args : dict, optional
            Those of `ZarrIO.export`.
        storage_options : dict, optional
            Of the new store.

        Raises
        ------
        BrokenLinkError
            If a link of the file is broken: it would be missing in the new one.
        """
        if nwbfile is None:
            nwbfile = self.read()
        if self.broken_links:
            raise BrokenLinkError(
                f"{self.source} is not converted, since broken links would be missing: "
                + "; ".join(self.broken_links)
            )
        nwbfile.set_modified()
        with NWBZarrIO(path, "w", storage_options=storage_options, format="zarr3") as io:
            io.export(self, nwbfile, write_args={**(write_args or {}), "link_data": False})

    @staticmethod
    def convert_to_v3(
        source_path: Place,
        dest_path: Place,
        write_args: dict[str, Any] | None = None,
        storage_options: dict[str, Any] | None = None,
        allow_pickle: bool = False,
    ) -> None:
        """Write a Zarr v2 file as Zarr v3; see `export_to_v3`."""
        with NWBZarrV2IO(source_path, allow_pickle=allow_pickle) as io:
            io.export_to_v3(dest_path, write_args=write_args, storage_options=storage_options)
