"""The kvstore ``zip``: the members of an archive, which is one value of another kvstore."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from chunkwise.core.base.binding import expect_one_of
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.adapter.zip_write import Compression, default_compression
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec
from chunkwise.core.specs.url import quote_path

__all__ = ["ZipKvStoreSpec"]

_COMPRESSIONS = ("store", "deflate", "zstd", "xz")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ZipKvStoreSpec(OneBaseKvStoreSpec):
    """``{"driver": "zip", "base": "file:///a.zip", "path": "b/"}``, ``file:///a.zip|zip:b/``."""

    driver: ClassVar[str] = "zip"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    # of new values; by default deflate, and none in OME-Zarr's archives
    compression: Compression | None = member(
        "compression", partial(expect_one_of, choices=_COMPRESSIONS), None, shown="if set"
    )

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the driver's own members; the default of `compression` is that of the archive's name."""
        usual = default_compression(self.below.path)
        is_shown = include_defaults or self.compression not in (None, usual)
        return {"compression": self.compression or usual} if is_shown else {}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the archive; the path stays a prefix of keys."""
        driver, key = self.below.open_driver()
        slots = self.live("data_copy_concurrency").slots
        return ZipStore(driver, key, compression=self.compression, slots=slots), self.path

    def to_url(self) -> str:
        """Return ``base|zip:path``."""
        return f"{self.below.to_url()}|zip:{quote_path(self.path)}"
