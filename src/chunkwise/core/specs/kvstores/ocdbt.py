"""The kvstore ``ocdbt``: the keys of a database, which is stored in several values of another kvstore."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_bool,
    expect_int,
    expect_object,
    expect_string,
)
from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_commit import Storage
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder, dump_part, parse_location
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.ocdbt.history import VersionName, parse_version
from chunkwise.core.kvstore.ocdbt.manifest import ConfigMembers, format_config, parse_config
from chunkwise.core.kvstore.ocdbt.places import is_inside
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.request_limits import Coalescing
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.kvstores.adapter import AdapterKvStoreSpec, expect_kvstore
from chunkwise.core.specs.resource_kind import format_duration, parse_duration
from chunkwise.core.specs.url import quote_path
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["OcdbtKvStoreSpec"]

_PREFIXES = {
    "value_data_prefix": "value_prefix",
    "btree_node_data_prefix": "node_prefix",
    "version_tree_node_data_prefix": "version_prefix",
}
_SIZES = {
    "experimental_read_coalescing_threshold_bytes": "gap",
    "experimental_read_coalescing_merged_bytes": "largest",
}
_INTERVAL = "experimental_read_coalescing_interval"
_expect_uint64 = partial(expect_int, lo=0, hi=2**64 - 1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OcdbtKvStoreSpec(AdapterKvStoreSpec):
    """``{"driver": "ocdbt", "base": "file:///db/", "path": "a/"}``, ``file:///db/|ocdbt:@v3/a/``."""

    driver: ClassVar[str] = "ocdbt"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    below: KvStoreSpec  # the member ``base``, a directory
    manifest: KvStoreSpec | None  # the directory of the manifests, if different
    config: ConfigMembers
    storage: Storage  # the members ``*_data_prefix``, ``target_data_file_size`` and ``assume_config``
    # The members ``experimental_read_coalescing_*``; no read waits, since the reads of one request arrive
    # together.
    coalescing: dict[str, JSON]
    version: VersionName | None

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take all members except those that every kvstore has."""
        members.take("coordinator", _expect_no_coordinator, None)
        storage = {field: members.take(member, _expect_prefix, "d/") for member, field in _PREFIXES.items()}
        coalescing: dict[str, JSON] = {name: members.take(name, _expect_uint64, None) for name in _SIZES}
        coalescing[_INTERVAL] = members.take(_INTERVAL, lambda v: format_duration(parse_duration(v)), None)
        return {
            "below": members.take("base", expect_kvstore, example="file:///data/a.ocdbt/").as_directory(),
            "manifest": members.take("manifest", lambda v: expect_kvstore(v).as_directory(), None),
            "config": members.take("config", parse_config, ConfigMembers({})),
            "storage": Storage(
                **storage,
                file_nbytes=members.take("target_data_file_size", _expect_uint64, None),
                assume_config=members.take("assume_config", expect_bool, False),
            ),
            "coalescing": {name: value for name, value in coalescing.items() if value is not None},
            "version": members.take("version", parse_version, None),
        }

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return all members except ``base`` and ``manifest``, if not at their default."""
        storage, out = self.storage, dict(self.coalescing)
        for member, field in _PREFIXES.items():
            value = getattr(storage, field)
            if include_defaults or value != "d/":
                out[member] = value
        if self.config.given or include_defaults:
            out["config"] = format_config(self.config.given, include_defaults)
        if storage.assume_config or include_defaults:
            out["assume_config"] = storage.assume_config
        if storage.file_nbytes is not None:
            out["target_data_file_size"] = storage.file_nbytes
        if self.version is not None:
            out["version"] = self.version.json
        return out

    @property
    def base(self) -> KvStoreSpec:
        """The kvstore of the database."""
        return self.below

    def inner(self) -> tuple[KvStoreSpec, ...]:
        """Return the base, and the manifests' kvstore if different."""
        return (self.below,) if self.manifest is None else (self.below, self.manifest)

    def with_inner(self, inner: tuple[KvStoreSpec, ...]) -> Self:
        """Return the spec over others."""
        return replace(self, below=inner[0], manifest=inner[1] if len(inner) > 1 else None)

    def inner_members(self, inner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return ``base``, and ``manifest`` if given."""
        return dict(zip(("base", "manifest"), inner, strict=False))

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the database; the path stays a prefix of keys."""
        data, *others = (Folder(*base.open_driver()) for base in self.inner())
        sizes = {field: self.coalescing[name] for name, field in _SIZES.items() if name in self.coalescing}
        options = Options(
            config=self.config,
            storage=self.storage,
            version=self.version,
            coalescing=Coalescing(**sizes) if sizes else None,
            slots=self.live("data_copy_concurrency").slots,
            cache_nbytes=self.live("cache_pool").total_bytes_limit,
        )
        return OcdbtStore(data, others[0] if others else data, options), self.path

    def part_reader(self, location: str | None, context: Context | None) -> Callable[[], Any]:
        """Return the function that reads a part of the database as JSON, the manifest for None."""
        part = None if location is None else parse_location(location)

        def read() -> Any:
            store, _ = self.bind(as_context(context)).open_driver()
            assert isinstance(store, OcdbtStore)
            return dump_part(store.database, part)

        return read

    def as_opened(self, store: KvStoreDriver) -> Self:
        """Return the spec with the configuration of the database, if it has been read."""
        if isinstance(store, PendingStore):
            store = store.base
        config = store.database.known_config if isinstance(store, OcdbtStore) else None
        return self if config is None else replace(self, config=ConfigMembers.of(config))

    def to_url(self) -> str:
        """Return ``base|ocdbt:path`` or ``base|ocdbt:@v3/path``."""
        if self.manifest is not None:
            raise UnsupportedError("OCDBT URL syntax not supported with separate manifest kvstore")
        version = "" if self.version is None else f"@{self.version.text}/"
        return f"{self.below.to_url()}|ocdbt:{version}{quote_path(self.path)}"


def _expect_prefix(value: JSON) -> str:
    """Return a prefix for paths of data files, which must be inside the database."""
    text = expect_string(value)
    if not is_inside(f"{text}0"):
        raise InvalidArgumentError(f"Expected the beginning of a relative path, but received: {dump(text)}")
    return text


def _expect_no_coordinator(value: JSON) -> None:
    if not isinstance(value, str) and not expect_object(value):
        return
    raise UnsupportedError(
        "the coordinator of OCDBT is not supported: each process commits for itself, conditionally on the "
        'manifest, so that no update is lost; leave out the member "coordinator"'
    )
