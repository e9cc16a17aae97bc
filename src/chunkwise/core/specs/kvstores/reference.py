"""The kvstores ``reference``, ``hdf5`` and ``tiff_images``: keys whose values are byte ranges of other files.

The table of ranges is kerchunk's, in JSON or Parquet, or is made from an HDF5, NetCDF-4, TIFF or OME-TIFF
file, which becomes a read-only tree of Zarr v2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from chunkwise.core.base.binding import parse_array
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.reference.json_table import JsonTable
from chunkwise.core.kvstore.reference.parquet_table import METADATA, load_parquet
from chunkwise.core.kvstore.reference.store import Loaded, LoadTable, OpenTarget, ReferenceStore
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec
from chunkwise.core.specs.reference_targets import Allowed, ReferenceTargets, expect_allowed
from chunkwise.core.specs.url import quote_path
from chunkwise.errors import NotFoundError

__all__ = ["Hdf5KvStoreSpec", "ReferenceKvStoreSpec", "TableKvStoreSpec", "TiffImagesKvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableKvStoreSpec(OneBaseKvStoreSpec, ABC):
    """Base of the specs of stores that are tables of references."""

    # prefixes of URLs that references may use, apart from files beside this one
    allow: tuple[Allowed, ...] = member(
        "allow",
        lambda v: tuple(parse_array(v, expect_allowed)),
        (),
        shown="with defaults",
        to_json=lambda value: [allowed.to_json() for allowed in value],
    )
    shared: Context | None = None  # source of other stores' resources; set in a bound spec

    @property
    def is_remote(self) -> bool:
        """True if the file is remote, or may lead to remote ones."""
        return self.below.is_remote or bool(self.allow)

    def bind(self, context: Context) -> Self:
        """Return the spec with live resources; other stores' resources also come from `context`."""
        return super().bind(context if self.shared is None else self.shared)

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources below, and its context."""
        return replace(super().bind_inner(context), shared=context)

    def strip(self) -> Self:
        """Return the spec without context and bound resources."""
        return replace(super().strip(), shared=None)

    def unbound(self, names: Mapping[int, str] | None = None) -> Self:
        """Return the spec with names in place of bound resources."""
        return replace(super().unbound(names), shared=None)

    @abstractmethod
    def load_table(self) -> LoadTable:
        """Return the function that reads the table of a file."""

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the table; the path stays a prefix of keys."""
        assert self.shared is not None, "the spec is not bound"
        driver, key = self.below.open_driver()
        targets = ReferenceTargets(self.below, self.allow, self.shared)
        return ReferenceStore(self.driver, self.load_table(), driver, key, targets), self.path

    def to_url(self) -> str:
        """Return ``base|driver:path``."""
        return f"{self.below.to_url()}|{self.driver}:{quote_path(self.path)}"


class ReferenceKvStoreSpec(TableKvStoreSpec):
    """``{"driver": "reference", "base": "file:///refs.json"}``, ``file:///refs.json|reference:``."""

    driver: ClassVar[str] = "reference"

    def load_table(self) -> LoadTable:
        """Return the reader of a JSON file, or of a directory of Parquet files."""
        return _load


def _load(base: KvStoreDriver, key: str, open_target: OpenTarget) -> Loaded:
    if key and not key.endswith("/"):
        found = base.read(key)
        if found.value is not None:
            return Loaded(JsonTable(found.value), key, found.generation)
    directory = key if not key or key.endswith("/") else key + "/"
    try:
        return load_parquet(base, directory)
    except NotFoundError:
        raise NotFoundError(
            f"there are no references: neither {base.describe(key)} nor "
            f"{base.describe(directory + METADATA)} is there"
        ) from None


class Hdf5KvStoreSpec(TableKvStoreSpec):
    """``{"driver": "hdf5", "base": "file:///x.h5", "path": "a/b/"}``, ``file:///x.h5|hdf5:a/b/``."""

    driver: ClassVar[str] = "hdf5"

    def load_table(self) -> LoadTable:
        """Return the reader of HDF5 files."""
        from chunkwise.core.kvstore.reference.hdf5_table import load_hdf5

        return load_hdf5


class TiffImagesKvStoreSpec(TableKvStoreSpec):
    """``{"driver": "tiff_images", "base": "file:///x.tif", "path": "0/"}``, ``file:///x.tif|tiff-images:0/``."""

    driver: ClassVar[str] = "tiff_images"

    def load_table(self) -> LoadTable:
        """Return the reader of TIFF files."""
        from chunkwise.core.kvstore.reference.tiff_table import load_tiff

        return load_tiff
