"""NWB files in Zarr v2, Zarr v3 and N5 stores, and hdmf-zarr 0.14's classes for Zarr v2 files."""

# hdmf checks the arguments of each call, and asks several times for the type, namespace and class of each
# object, in calls nested five deep.  This takes a quarter of the time of making containers.  The methods here
# give the same answers as hdmf's own classes.  They keep nothing, so types that are registered later count.

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any

import numpy as np
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap

from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import check_choice, options_of
from chunkwise.hdmf.backend.io import MODES, ZarrIO
from chunkwise.hdmf.backend.schema import cached_versions
from chunkwise.hdmf.model.place import Place, place_of, with_storage_options
from chunkwise.hdmf.model.tree import detect_format
from chunkwise.hdmf.opening import open_store
from chunkwise.hdmf.storage.resolve import BrokenLinkError

__all__ = [
    "NWBZarrIO",
    "NWBZarrV2IO",
    "StoreBuildManager",
    "StoreTypeMap",
    "ZarrV2IO",
    "is_zarr_v2_file",
    "read_nwb",
    "validate",
]

# -- types --------------------------------------------------------------------------------------------


class StoreTypeMap(TypeMap):  # type: ignore[misc, unused-ignore]
    """A copy of a type map."""

    def __init__(self, source: TypeMap) -> None:
        super().__init__(copy(source.namespace_catalog), type_config=deepcopy(source.type_config))
        self.merge(source)
        catalog = self.namespace_catalog
        self._type_keys = {
            GroupBuilder: catalog.group_spec_cls.type_key(),
            DatasetBuilder: catalog.dataset_spec_cls.type_key(),
        }

    def extend(self, extensions: Sequence[str | os.PathLike[str] | TypeMap]) -> None:
        """Load files of namespaces, and the namespaces of type maps; known ones are kept."""
        catalog = self.namespace_catalog
        for extension in extensions:
            if not isinstance(extension, TypeMap):
                self.load_namespaces(os.fspath(extension))
                continue
            others = extension.namespace_catalog
            for name in others.namespaces:
                if name not in catalog.namespaces:
                    catalog.add_namespace(name, others.get_namespace(name))
            self.merge(extension)

    def get_builder_dt(self, builder: Any) -> Any:
        """Return the data type of a builder; None if it has none."""
        key = self._type_keys.get(type(builder))
        found = None if key is None else builder.attributes.get(key)
        return found if type(found) is str else super().get_builder_dt(builder)

    def get_builder_ns(self, builder: Any) -> Any:
        """Return the namespace of a builder; None if it has none."""
        if type(builder) in self._type_keys:
            return builder.attributes.get("namespace")
        return super().get_builder_ns(builder)

    def get_cls(self, builder: Any) -> Any:
        """Return the container class for a builder; raises ValueError if it has no data type."""
        data_type, namespace = self.get_builder_dt(builder), self.get_builder_ns(builder)
        if data_type is None or namespace is None:
            return super().get_cls(builder)
        return self.get_dt_container_cls(data_type, namespace)


class StoreBuildManager(BuildManager):  # type: ignore[misc, unused-ignore]
    """Makes containers of builders, and builders of containers."""

    def get_builder_dt(self, builder: Any) -> Any:
        """Return the data type of a builder; None if it has none."""
        return self.type_map.get_builder_dt(builder)

    def get_builder_ns(self, builder: Any) -> Any:
        """Return the namespace of a builder; None if it has none."""
        return self.type_map.get_builder_ns(builder)

    def get_cls(self, builder: Any) -> Any:
        """Return the container class for a builder; raises ValueError if it has no data type."""
        return self.type_map.get_cls(builder)


# -- NWB files ----------------------------------------------------------------------------------------


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
            int(part) if part.isdecimal() else part for part in text.replace("-", ".").split(".")
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
    except TypeError:  # releases that always make a copy
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


# -- hdmf-zarr 0.14's classes -------------------------------------------------------------------------


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
            Options of the new store.

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
