"""The backend behind ``xarray.open_dataset(..., engine="chunkwise")`` and its relatives.

xarray decodes by the CF conventions, chunks with dask when asked to, and opens files; this module makes
variables of the arrays of a group.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from xarray import Dataset, DataTree
from xarray.backends import AbstractDataStore, BackendEntrypoint, StoreBackendEntrypoint

from chunkwise.extension.inside import shown_text, with_storage_options
from chunkwise.extension.trees import with_number_types
from chunkwise.groups.group import Group
from chunkwise.xarray.encode import without_nczarr
from chunkwise.xarray.members import (
    even_members,
    group_at,
    groups_below,
    is_of_netcdf,
    members_of,
    open_variable,
)

__all__ = ["ChunkwiseBackendEntrypoint", "ChunkwiseDataStore"]


class ChunkwiseDataStore(AbstractDataStore):
    """The variables and attributes of a group, not decoded; dropped arrays are not opened."""

    def __init__(self, group: Group, drop_variables: Iterable[str], fill_value_as_mask: bool | None) -> None:
        self._group = group
        self._members = members_of(group, set(drop_variables))
        self._fill_value_as_mask = fill_value_as_mask

    def get_variables(self) -> dict[str, Any]:
        """Return a lazy variable for each array."""
        variables = self._variables()
        if (dim := _uneven(variables)) is not None:
            self._members = even_members(self._members, variables, dim)
            variables = self._variables()
        return variables

    def _variables(self) -> dict[str, Any]:
        return {
            name: open_variable(name, member, self._fill_value_as_mask)
            for name, member in self._members.items()
        }

    def of_characters(self) -> dict[str, bool]:
        """Return for each array whether its last dimension may hold the characters of text."""
        return {name: is_of_netcdf(member) for name, member in self._members.items()}

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the group."""
        return with_number_types(self._group._node, without_nczarr(self._group.attrs.asdict()))

    def get_dimensions(self) -> dict[str, int]:
        """Return the size of each dimension."""
        sizes: dict[str, int] = {}
        for variable in self.get_variables().values():
            sizes.update(variable.sizes)
        return sizes

    def get_encoding(self) -> dict[str, Any]:
        """Return nothing: every dimension can grow, so none is marked as unlimited."""
        return {}


def _uneven(variables: Mapping[str, Any]) -> Any:
    """Return a dimension of which variables have different sizes, or None."""
    sizes: dict[Any, int] = {}
    for variable in variables.values():
        for dim, size in variable.sizes.items():
            if sizes.setdefault(dim, size) != size:
                return dim
    return None


class ChunkwiseBackendEntrypoint(BackendEntrypoint):
    """Datasets in groups of Zarr v2, Zarr v3 and N5, on any kvstore that chunkwise has.

    Parameters of the methods
    -------------------------
    filename_or_obj : str, path-like, dict, Spec, KvStore or Group
        A path, a URL such as ``s3://bucket/data.zarr``, the spec of a kvstore, or an open group.
    mask_and_scale, decode_times, decode_coords, use_cftime, decode_timedelta
        Options of xarray's decoding; see `xarray.open_dataset`.
    concat_characters : bool or mapping of str to bool
        Whether arrays of single bytes become text along their last dimension.  By default only those that
        come from netCDF: in NCZarr, in reference files and in HDF5 files.
    drop_variables : str or iterable of str
        Arrays that are left out, and not opened.
    group : str, optional
        Path of the group.
    consolidated : bool, optional
        Whether to use consolidated metadata; by default if there is any.  With it a whole tree is opened with
        one request.
    format : {"zarr3", "zarr2", "n5"}, optional
        By default it is detected.
    use_zarr_fill_value_as_mask : bool, optional
        Whether the fill value of arrays marks missing values, like ``_FillValue``.  By default true in Zarr
        v2; in Zarr v3 and N5 the attribute marks them, as in xarray's own engine.
    storage_options : mapping, optional
        As for `chunkwise.open_group`.
    """

    description = "Open Zarr v2, Zarr v3 and N5 groups with chunkwise"
    url = "https://pypi.org/project/chunkwise/"
    supports_groups = True
    open_dataset_parameters = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "consolidated",
        "format",
        "use_zarr_fill_value_as_mask",
        "storage_options",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        consolidated: bool | None = None,
        format: str | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """Open the arrays of one group."""
        found = group_at(
            with_storage_options(filename_or_obj, storage_options),
            group,
            format=format,
            consolidated=consolidated,
        )
        dropped = [drop_variables] if isinstance(drop_variables, str) else list(drop_variables or ())
        store = ChunkwiseDataStore(found, dropped, use_zarr_fill_value_as_mask)
        opened: Dataset = StoreBackendEntrypoint().open_dataset(
            store,
            drop_variables=dropped,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=store.of_characters() if concat_characters is True else concat_characters,
            decode_coords=decode_coords,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        if isinstance(filename_or_obj, str) and shown_text(filename_or_obj) != filename_or_obj:
            opened.encoding["source"] = shown_text(filename_or_obj)  # xarray keeps it in pickles
        opened.set_close(None)  # nothing is kept open, and the group can't go to other processes
        return opened

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        consolidated: bool | None = None,
        format: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Dataset]:
        """Open a group and all groups below it, by their paths: ``/``, ``/a``, ``/a/b``."""
        top = group_at(
            with_storage_options(filename_or_obj, storage_options),
            group,
            format=format,
            consolidated=consolidated,
        )
        return {path: self.open_dataset(below, **options) for path, below in groups_below(top)}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open a group and all groups below it as one tree."""
        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True if it looks like something that no other engine opens."""
        # Claim Zarr only if zarr-python is not installed, so that the engine of programs doesn't change.
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj).rstrip("/")
        return name.endswith(".n5") or (name.endswith(".zarr") and find_spec("zarr") is None)
