"""The kvstores ``reference``, ``hdf5`` and ``tiff_images``: keys whose values are byte ranges of other files.

A reference file is untrusted, and names locations.  Those beside and below it, on the same server or in the
same bucket are read; others only if the caller lists them.  A remote file never leads to local ones, and no
file to a link-local address.

The table of ranges is kerchunk's, in JSON or Parquet, or is made from an HDF5, NetCDF-4, TIFF or OME-TIFF
file, which becomes a read-only tree of Zarr v2.
"""

from __future__ import annotations

import os
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_string, parse_array
from chunkwise.core.base.cached import copied
from chunkwise.core.kvstore.files.platform import WINDOWS
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.reference.json_table import JsonTable
from chunkwise.core.kvstore.reference.parquet_table import METADATA, load_parquet
from chunkwise.core.kvstore.reference.store import Loaded, LoadTable, OpenTarget, ReferenceStore
from chunkwise.core.kvstore.web.request import link_local_address
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member, parse_kvstore_spec
from chunkwise.core.specs.kvstores.adapter import OneBaseKvStoreSpec, expect_kvstore
from chunkwise.core.specs.url import quote_path, remote_members
from chunkwise.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    SpecError,
    UnsupportedError,
)

__all__ = ["Hdf5KvStoreSpec", "ReferenceKvStoreSpec", "ReferenceTargets", "TiffImagesKvStoreSpec"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_DRIVERS = {
    "file": "file",
    "local": "file",
    "memory": "memory",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "http": "http",
    "https": "http",
}
_SCHEMES = {"local": "file", "s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_MOST_STORES = 256  # number of locations to remember, since a table may have very many


class Allowed(NamedTuple):
    """URLs that references may have."""

    url: str  # their prefix
    kvstore: KvStoreSpec | None = None  # the location that `url` stands for

    def to_json(self) -> JSON:
        """Return the member's JSON."""
        return self.url if self.kvstore is None else {"url": self.url, "kvstore": self.kvstore.to_json()}


def _expect_allowed(value: JSON) -> Allowed:
    """Read a prefix of URLs: text, or an object with ``url`` and ``kvstore``."""
    if isinstance(value, dict):
        members = Members(value)
        url = members.take("url", expect_string)
        kvstore = members.take("kvstore", lambda v: None if v is MISSING else expect_kvstore(v), None)
        members.finish()
    else:
        url, kvstore = expect_string(value), None
    try:
        place = _place(url)
    except (InvalidArgumentError, PermissionDeniedError, UnsupportedError) as e:
        raise SpecError(e.message) from None
    return Allowed(place.url, kvstore)


class _Place(NamedTuple):
    """The parts of an absolute URL."""

    driver: str
    scheme: str
    host: str  # or bucket
    path: str  # in the store's form

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{'' if self.path.startswith('/') else '/'}{self.path}"

    @property
    def spec(self) -> KvStoreSpec:
        if self.driver in ("file", "memory"):
            json: dict[str, Any] = {"path": self.path}
        else:
            rest = f"{self.host}/{self.path.removeprefix('/')}"
            json = remote_members(self.driver, self.scheme, rest, lambda text: text) or {}
        return parse_kvstore_spec({"driver": self.driver, **json}, _no_url)


def _no_url(url: str) -> KvStoreSpec:
    raise InvalidArgumentError(f"unexpected URL: {dump(url)}")


def _place(url: str) -> _Place:
    """Split an absolute URL, or the absolute path of a local file; fsspec's URLs are not encoded."""
    found = _SCHEME.match(url)
    if found is None:
        scheme, rest = "file", url
    else:
        scheme, rest = found[1].lower(), url[found.end() :]
    driver = _DRIVERS.get(scheme)
    if driver is None:
        raise UnsupportedError(f"unsupported URL scheme {dump(scheme)} in {dump(url[:200])}")
    scheme = _SCHEMES.get(scheme, scheme)
    if "|" in url or "\0" in url:
        raise InvalidArgumentError(f"unsupported character in {dump(url[:200])}")
    if driver in ("file", "memory"):
        host, path = "", rest
        if driver == "file" and not os.path.isabs(path):
            raise InvalidArgumentError(f"expected an absolute path in {dump(url[:200])}")
    else:
        host, _, path = rest.partition("/")
        if "@" in host and driver != "azure":
            raise PermissionDeniedError(f"{dump(url[:200])} is refused: it contains credentials")
        host = host.lower() if driver == "http" else host
        path = "/" + path if driver == "http" else path
    shown = unquote(path.partition("?")[0]) if driver == "http" else path
    if ".." in shown.replace("\\", "/").split("/"):
        raise PermissionDeniedError(f'{dump(url[:200])} is refused: it has the component ".."')
    return _Place(driver, scheme, host, path)


@dataclass(frozen=True, eq=False)
class ReferenceTargets:
    """Opens the stores to which the references of a file at `base` lead."""

    base: KvStoreSpec  # bound
    allow: tuple[Allowed, ...]
    context: Context

    def __post_init__(self) -> None:
        vars(self)["_stores"] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ReferenceTargets, (self.base, self.allow, self.context)

    def __call__(self, url: str) -> tuple[KvStoreDriver, str]:
        """Return the store and the key of `url`."""
        stores: dict[str, tuple[KvStoreDriver, str]] = vars(self)["_stores"]
        known = stores.get(url)
        if known is None:
            found = self._find(url).open_driver()
            if len(stores) >= _MOST_STORES:
                stores.clear()
            # One driver for all files of a location, so that readers and connections are shared.
            same = next((s for s, _ in stores.values() if s.identity == found[0].identity), found[0])
            known = stores[url] = same, found[1]
        return known

    def _find(self, url: str) -> KvStoreSpec:
        base = self.base
        if _SCHEME.match(url) is None and not os.path.isabs(url) and not (WINDOWS and url[:1] == "/"):
            return self._relative(url)
        place = _place(url)
        if place.driver == "file" and not self._is_local:
            raise PermissionDeniedError(
                f"{dump(url[:200])} is refused: a remote reference file can't lead to local files"
            )
        own = _origin(base)
        if own == (place.driver, place.scheme, place.host):
            if place.driver == "http":
                path, question, query = place.path.partition("?")
                root = f"{place.scheme}://{place.host}{question}{query}"
                return copied(base, base_url=root, path=unquote(path, errors="surrogateescape"))
            if place.driver != "file" or _is_below(place.path, base.path):
                return base.with_path(place.path)
        for allowed in self.allow:
            if _begins_with(place.url, allowed.url):
                return self._checked(place, url, allowed).bind(self.context)
        raise PermissionDeniedError(
            f"{dump(url[:200])} is refused: it is neither beside the reference file nor on the "
            f'same server; the member "allow" lists what else may be read, such as {dump(_above(place))}'
        )

    def _checked(self, place: _Place, url: str, allowed: Allowed) -> KvStoreSpec:
        if place.driver == "http":
            address = link_local_address(urlsplit(f"//{place.host}").hostname or "")
            if address:
                raise PermissionDeniedError(
                    f"{dump(url[:200])} is refused: {place.host} is the link-local address {address}"
                )
        if allowed.kvstore is None:
            return place.spec
        return allowed.kvstore.joined(place.url[len(allowed.url) :].removeprefix("/"))

    def _relative(self, url: str) -> KvStoreSpec:
        base = self.base
        directory = base.path.rstrip("/").rpartition("/")[0] if base.path else ""
        path = posixpath.normpath(posixpath.join(directory, url)) if directory else posixpath.normpath(url)
        own = _origin(base)
        is_below = own is not None and own[0] != "file" and not path.startswith("..")
        if not is_below and not (path.startswith(f"{directory}/") if directory else path[:2] != ".."):
            raise PermissionDeniedError(
                f"{dump(url[:200])} is refused: it lies above the reference file {dump(base.path)}"
            )
        if base.driver == "file" and not _is_below(path, base.path):
            raise PermissionDeniedError(f"{dump(url[:200])} is refused: it leads outside by a symbolic link")
        return base.with_path(path)

    @property
    def _is_local(self) -> bool:
        base = self.base
        while base.base is not None:
            base = base.base
        return base.driver == "file"


def _origin(spec: KvStoreSpec) -> tuple[str, str, str] | None:
    """Return driver, scheme, and host or bucket of a store; None for other kinds."""
    match spec.driver:
        case "file" | "memory":
            return spec.driver, spec.driver, ""
        case "http":
            parts = urlsplit(getattr(spec, "base_url"))  # noqa: B009 - of that driver's spec
            return "http", parts.scheme, parts.netloc.lower()
        case "s3" | "gcs":
            scheme = "s3" if spec.driver == "s3" else "gs"
            return spec.driver, scheme, getattr(spec, "bucket")  # noqa: B009
        case "azure":
            return "azure", "az", getattr(spec, "container")  # noqa: B009
    return None


def _is_below(path: str, reference: str) -> bool:
    """Return True if a local file is in or below the directory of the reference file."""
    root = os.path.realpath(os.path.dirname(os.path.abspath(reference.rstrip("/"))))
    return os.path.realpath(path).startswith(root.rstrip(os.sep) + os.sep)


def _begins_with(url: str, beginning: str) -> bool:
    """Return True if `url` begins with whole components of `beginning`."""
    if not url.startswith(beginning):
        return False
    return beginning.endswith("/") or len(url) == len(beginning) or url[len(beginning)] in "/?"


def _above(place: _Place) -> str:
    return place.url.partition("?")[0].rpartition("/")[0] + "/"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableKvStoreSpec(OneBaseKvStoreSpec, ABC):
    """Base of the specs of stores that are tables of references."""

    # prefixes of URLs that references may use, apart from files beside this one
    allow: tuple[Allowed, ...] = member(
        "allow",
        lambda v: tuple(parse_array(v, _expect_allowed)),
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
