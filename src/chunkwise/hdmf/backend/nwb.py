"""NWB files in Zarr v2, Zarr v3 and N5 stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.build import BuildManager, DatasetBuilder, TypeMap

from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import check_choice, options_of
from chunkwise.hdmf.backend.io import MODES, ZarrIO
from chunkwise.hdmf.backend.manager import StoreBuildManager, StoreTypeMap
from chunkwise.hdmf.backend.spec_cache import cached_versions
from chunkwise.hdmf.model.place import Place, place_of, with_storage_options
from chunkwise.hdmf.opening import open_store

__all__ = ["NWBZarrIO", "read_nwb", "validate"]


class NWBZarrIO(ZarrIO):
    """Reads and writes NWB files.

    Parameters
    ----------
    path : str, path or KvStore
    mode : str
        As for `ZarrIO`.
    manager : BuildManager, optional
        By default one that knows NWB's types and, for reading, those that are cached in the file.
    storage_options, force_overwrite
        As for `ZarrIO`.
    load_namespaces : bool
        Whether cached specifications are used for types that no installed package has.
    extensions : str, path, TypeMap or list of such, optional
        Further extensions to load: files of namespaces, and type maps; not with a manager.
    driver, aws_region : None
        Options of HDF5, which ``pynwb.validate`` gives to every backend.
    **options
        Others of `ZarrIO`.
    """

    @options_of(ZarrIO)
    def __init__(
        self,
        path: Place,
        mode: str = "r",
        manager: BuildManager | None = None,
        storage_options: dict[str, Any] | None = None,
        force_overwrite: bool = False,
        load_namespaces: bool = True,
        extensions: Any = None,
        driver: None = None,
        aws_region: None = None,
        **options: Any,
    ) -> None:
        check_choice(mode, "mode", MODES)
        for name, value in (("driver", driver), ("aws_region", aws_region)):
            if value is not None:
                raise InvalidArgumentError(f"{name} is an option of HDF5; it is {value!r}, but must be None")
        if manager is not None and extensions is not None:
            raise ValueError("'manager' and 'extensions' cannot be specified together")
        if manager is None:
            manager = self._manager(path, mode, load_namespaces, extensions, storage_options)
        super().__init__(path, mode, manager, storage_options, force_overwrite, **options)

    def _manager(
        self, path: Place, mode: str, load: bool, extensions: Any, storage_options: Any
    ) -> BuildManager:
        type_map = StoreTypeMap(_shared_type_map())
        if extensions is not None:
            type_map.extend(extensions if isinstance(extensions, list | tuple) else [extensions])
            return StoreBuildManager(type_map)
        if mode in ("w", "w-", "x") or not load:
            return StoreBuildManager(type_map)
        try:
            store = self._found = open_store(with_storage_options(path, storage_options))
        except ChunkwiseError:
            if mode == "a":  # a new file
                return StoreBuildManager(type_map)
            raise
        catalog = type_map.namespace_catalog
        versions = cached_versions(store)
        if any(
            catalog.get_namespace(n).version != v if n in catalog.namespaces else True
            for n, v in versions.items()
        ):
            self.load_namespaces(type_map, file=store)
        return StoreBuildManager(type_map)

    @staticmethod
    def can_read(path: Any) -> bool:
        """Return True if there is a store with an NWB file at a path or URL; never raises."""
        try:
            store = open_store(place_of(path, patient=False))
            return "nwb_version" in store.attributes("/")
        except (
            Exception
        ):  # pynwb asks each backend about any file: after any error, it isn't one of this backend's
            return False

    @property
    def nwb_version(self) -> tuple[str | None, tuple[Any, ...] | None]:
        """Version of NWB, as text and as a tuple of its parts; (None, None) if there is none."""
        version = self.store.attributes("/").get("nwb_version")
        if version is None:
            return None, None
        text = str(version)
        return text, tuple(
            int(part) if part.isdigit() else part for part in text.replace("-", ".").split(".")
        )

    def read(self, **kwargs: Any) -> Any:
        """Return the NWB file.

        Files that lost ``file_create_date``, as exports of hdmf-zarr 0.13 did, have none then.

        Raises
        ------
        TypeError
            If the store holds no NWB file of version 2 or later.
        """
        skip = kwargs.pop("skip_version_check", False)
        if self.mode not in ("w", "w-", "x") and not skip:
            version = self.nwb_version[1]
            if version is None:
                raise TypeError("Missing NWB version in file. The file is not a valid NWB file.")
            if isinstance(version[0], int) and version[0] < 2:
                raise TypeError(f"NWB version {self.nwb_version[0]} not supported.")
            root = self.read_builder()
            if "file_create_date" not in root.datasets and "file_create_date" not in root.links:
                root.set_dataset(DatasetBuilder("file_create_date", np.empty(0, object), source=self.source))
        return super().read(**kwargs)

    def export(self, src_io: Any, nwbfile: Any = None, **kwargs: Any) -> None:
        """Write the contents of another NWB file, of any backend; arguments as for `ZarrIO.export`.

        Parameters
        ----------
        src_io : HDMFIO
        nwbfile : NWBFile, optional
            The file as read from it, perhaps modified since.
        """
        if nwbfile is not None:
            kwargs["container"] = nwbfile
        super().export(src_io, **kwargs)

    @staticmethod
    def read_nwb(path: Place, **options: Any) -> Any:
        """Return the NWB file in a store; see `read_nwb`."""
        return read_nwb(path, **options)


def _shared_type_map() -> TypeMap:
    import pynwb

    try:
        return pynwb.get_type_map(copy=False)
    except TypeError:  # releases that make a copy always
        return pynwb.get_type_map()


@options_of(NWBZarrIO)
def read_nwb(path: Place, **options: Any) -> Any:
    """Return the NWB file in a store.

    Parameters
    ----------
    path : str, path or KvStore
        Local path, URL or kvstore.
    **options
        Those of `NWBZarrIO`.  Public buckets need ``storage_options={"anon": True}``.

    Returns
    -------
    pynwb.NWBFile
        Its data is read on use, until ``nwbfile.get_read_io().close()``.
    """
    return NWBZarrIO(path, mode="r", **options).read()


@options_of(NWBZarrIO)
def validate(path: Place, **options: Any) -> list[Any]:
    """Return the errors that pynwb finds in an NWB file, and its broken links.

    Parameters
    ----------
    path : str, path or KvStore
    **options
        Those of `NWBZarrIO`.

    Returns
    -------
    list
        Empty if there are none.
    """
    import pynwb

    with NWBZarrIO(path, mode="r", **options) as io:
        found = list(pynwb.validate(io=io))
        return [*found, *io.broken_links]
