"""URLs of kvstores and arrays: pipelines such as ``file:///data/a.zarr|zarr3:``, and ``s3://bucket/path``.

The first component is a root kvstore; then come kvstore adapters, one array driver, and array adapters.  A
URL is converted to the JSON of a spec.  Paths are percent-encoded, so "|" in a path is written ``%7C``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from chunkwise.core.base.binding import JSON, dump, expect_string
from chunkwise.core.base.catalogue import DRIVERS, KVSTORES
from chunkwise.core.base.registry import Entry
from chunkwise.core.dtypes.data_type import dtypes
from chunkwise.core.kvstore.files.platform import WINDOWS
from chunkwise.errors import InvalidArgumentError, SpecError, hint, noted, prefixed

__all__ = [
    "expect_azure_container",
    "expect_gcs_bucket",
    "expect_s3_bucket",
    "is_url",
    "kvstore_json_from_url",
    "parse_url",
    "path_of_file_url",
    "quote_path",
    "remote_members",
    "shown_text",
    "spec_json_from_path",
    "spec_json_from_url",
]

ENCODED = 'a name\'s own "#" is written "%23", its "?" "%3F"; a format is named after "|", as in "...|zarr3:"'
"""Note for errors about URL parts that a kvstore's URL can't have."""

_HOSTS = (
    "dfs.core.windows.net",
    "blob.core.windows.net",
    "dfs.fabric.microsoft.com",
    "blob.fabric.microsoft.com",
)


# Azure's URLs have the container before the "@".
_LOGIN = re.compile(r"(https?://)[^/?#|]*@|(://)[^/?#|@:]*:[^/?#|]*@", re.IGNORECASE)


def shown_text(text: str) -> str:
    """Return a path or URL as messages and pickles have it: without user and password."""
    return _LOGIN.sub(r"\1\2", text)


def _shown_name(bucket: str) -> str:
    return shown_text(f"://{bucket}")[3:]


def _quoted(text: str) -> str:
    return dump(shown_text(text))


def remote_members(driver: str, scheme: str, rest: str, decode: Callable[[str], str]) -> dict[str, Any]:
    """Return the members of the URL of an HTTP server or a bucket."""
    if driver == "http":
        if "#" in rest:
            raise noted(InvalidArgumentError("Fragment identifier not supported"), ENCODED)
        return {"base_url": f"{scheme}://{rest}"}
    name, _, path = rest.partition("/")
    decoded = decode(path)
    decode(name)  # for a query or fragment directly after the name
    if driver == "azure":
        out = _azure(name)
    else:
        out = {"bucket": (expect_s3_bucket if driver == "s3" else expect_gcs_bucket)(name)}
    if decoded:
        out["path"] = decoded
    return out


def _azure(authority: str) -> dict[str, Any]:
    container, at, host = authority.rpartition("@")
    if not at:
        return {"container": expect_azure_container(host)}
    account, _, domain = host.partition(".")
    if domain and domain not in _HOSTS:
        raise InvalidArgumentError(
            f"Unknown Azure host {dump(host)}; expected an account, alone or followed by one of "
            f"{', '.join(_HOSTS)}"
        )
    return {"container": expect_azure_container(container), "account_name": account}


_S3 = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_]|-(?!\.)|\.(?![.-]))*[A-Za-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_GCS = re.compile(r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?")
_AZURE = re.compile(r"[a-z0-9](?:-?[a-z0-9])*|\$[a-z]+")


def expect_s3_bucket(value: JSON) -> str:
    """Return the name of a bucket on S3; old names may have more than 63 characters, and capitals."""
    name = expect_string(value)
    valid = 3 <= len(name) <= 255 and _S3.fullmatch(name) and not _ADDRESS.fullmatch(name)
    if not valid or name.startswith(("xn--", "sthree-")) or name.endswith(("-s3alias", "--ol-s3")):
        raise SpecError(f"Invalid S3 bucket name: {dump(_shown_name(name))}")
    return name


def expect_gcs_bucket(value: JSON) -> str:
    """Return the name of a bucket on Google Cloud Storage; parts between dots have up to 63 characters."""
    name = expect_string(value)
    valid = 3 <= len(name) <= 222 and _GCS.fullmatch(name)
    if not valid or not all(0 < len(part) <= 63 for part in name.split(".")):
        raise SpecError(f"Invalid GCS bucket name: {dump(_shown_name(name))}")
    return name


def expect_azure_container(value: JSON) -> str:
    """Return the name of a container on Azure."""
    name = expect_string(value)
    if not 3 <= len(name) <= 63 or not _AZURE.fullmatch(name):
        raise SpecError(f"Invalid Azure container name: {dump(name)}")
    return name


Kind: TypeAlias = Literal[
    "root kvstore", "kvstore adapter", "kvstore-based TensorStore", "TensorStore adapter"
]

_DRIVE = r"[A-Za-z]:(/|\Z)"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|file:/")
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "adl": "az", "wasb": "az", "local": "file"}
_NOT_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_KVSTORE_ADAPTERS = ("zip", "ocdbt", "reference", "hdf5", "tiff_images")
_CHAINED = re.compile(rf"({'|'.join(_KVSTORE_ADAPTERS).replace('_', '-')}):(?://([^|]*?):)?:(?!$)")
_CACHED = re.compile("(?:simplecache|filecache|blockcache)::")
_ARRAY_ADAPTERS = ("cast",)
_OF_ONE_KEY = ("auto", "png", "jpeg", "tiff", "webp", "avif", "bmp")


class Component(NamedTuple):
    """One part of a pipeline."""

    text: str  # the part as written, with the optional colon
    scheme: str  # the text before the colon
    rest: str  # the text after it, still percent-encoded


def _unchained(text: str) -> str:
    """Return the pipeline for a URL in fsspec's order: ``reference::a.json``, ``zip://b/::a.zip``."""
    if cache := _CACHED.match(text):
        return cache[0] + _unchained(text[cache.end() :])
    found = _CHAINED.match(text)
    if found is None:
        return text
    base, bar, rest = text[found.end() :].partition("|")
    return f"{_unchained(base)}|{found[1]}:{found[2] or ''}{bar}{rest}"


def is_url(text: str) -> bool:
    """Return True if `text` begins with a URL scheme and ``://``, or with ``file:/``."""
    text = _CACHED.sub("", _unchained(text), count=1)
    return _SCHEME.match(text) is not None and not (WINDOWS and re.match(_DRIVE, text))


def quote_path(path: str, more: str = "") -> str:
    """Return `path` percent-encoded for a URL; the characters of `more` are kept too."""
    from urllib.parse import quote

    try:
        return quote(path, safe="/-_.!~*'():&=+$,;" + more)
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"Path is not valid UTF-8, so it has no URL: {dump(path)}") from None


def parse_url(url: str) -> list[Component]:
    """Split a URL into the components of its pipeline, without interpreting them."""
    if not url:
        raise InvalidArgumentError("URL must be non-empty")
    out = []
    for i, text in enumerate(_unchained(url).split("|")):
        scheme, colon, rest = _CACHED.sub("", text, count=1).partition(":")
        out.append(Component(text if colon or i == 0 or not text else text + ":", scheme, rest))
    return out


def kvstore_json_from_url(url: str) -> dict[str, Any]:
    """Return the JSON spec of the kvstore at `url`."""
    components = parse_url(url)
    with prefixed(f"Parsing spec from url: {_quoted(url)}"):
        kinds = _schemes()
        spec: dict[str, Any] | None = None
        for part in components:
            if not part.text:
                raise InvalidArgumentError("URL must be non-empty")
            if spec is None and ":" not in part.text:
                raise InvalidArgumentError(f"URL scheme must be specified in {_quoted(part.text)}")
            kind, driver = kinds.get(part.scheme, (None, ""))
            if kind != ("root kvstore" if spec is None else "kvstore adapter"):
                is_a = f": {dump(part.scheme)} is a {kind} URL scheme" if kind else ""
                error = InvalidArgumentError(
                    f"unsupported URL scheme {dump(part.scheme)} in {_quoted(part.text)}{is_a}"
                )
                raise error if kind else noted(error, _instead_of(part, kinds))
            spec = _kvstore(part, driver, spec)
        assert spec is not None
        return spec


def spec_json_from_url(url: str) -> dict[str, Any]:
    """Return the JSON spec of the array at `url`; without a driver, its format is detected later."""
    components = parse_url(url)
    with prefixed(f"Parsing spec from url: {_quoted(url)}"):
        return _array(components, None)


def spec_json_from_path(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON spec of the array, of any format, in a local file or directory."""
    # Pipeline components may follow after "|", as in a URL. TensorStore doesn't accept paths.
    text = os.fspath(path)
    head, *rest = parse_url(text)
    local = head.text
    if not local:
        raise InvalidArgumentError(f"Parsing spec from path: {_quoted(text)}: path must be non-empty")
    scheme, colon, _ = local.partition(":")
    if colon and _schemes().get(scheme, (None,))[0] == "root kvstore" and not os.path.lexists(local):
        raise InvalidArgumentError(
            f"Parsing spec from path: {_quoted(text)}: expected {dump(scheme + '://')} at the beginning of a "
            f"URL, or {dump('./' + scheme + ':')} at that of a path"
        )
    absolute = os.path.abspath(os.path.expanduser(local)).replace(os.sep, "/")
    if local.endswith(("/", os.sep)) and not absolute.endswith("/"):
        absolute += "/"
    with prefixed(f"Parsing spec from path: {_quoted(text)}"):
        return _array(rest, {"driver": "file", "path": absolute})


@lru_cache(maxsize=1)
def _schemes() -> dict[str, tuple[Kind, str]]:
    """Return the kind and the driver of each known scheme."""
    out: dict[str, tuple[Kind, str]] = {}
    tables: tuple[tuple[Mapping[str, Entry], Kind, Kind, tuple[str, ...]], ...] = (
        (KVSTORES, "root kvstore", "kvstore adapter", _KVSTORE_ADAPTERS),
        (DRIVERS, "kvstore-based TensorStore", "TensorStore adapter", _ARRAY_ADAPTERS),
    )
    for table, kind, adapter, adapters in tables:
        for name, entry in table.items():
            for scheme in entry.names.get("url", ()):
                out[scheme] = kind, name
        for name in adapters:
            out[name.replace("_", "-")] = adapter, name
    return out


def _array(components: list[Component], spec: dict[str, Any] | None) -> dict[str, Any]:
    """Append `components` to the kvstore `spec`, or start with them."""
    kinds = _schemes()
    is_array = False
    for part in components:
        kind, driver = kinds.get(part.scheme, (None, ""))
        if kind is None:
            error = InvalidArgumentError(f"unsupported URL scheme: {dump(part.scheme)}")
            raise noted(error, _instead_of(part, kinds))
        if is_array:
            fits = kind == "TensorStore adapter"
        else:
            fits = (kind == "root kvstore") == (spec is None)
        if not fits:
            after = "TensorStore" if is_array else "KvStore"
            place = (
                "as the first URL pipeline component"
                if spec is None
                else f"following a {after} URL pipeline component"
            )
            error = InvalidArgumentError(f"{kind} URL scheme in {_quoted(part.text)} is not valid {place}")
            first = f"the place comes first: a.json|{part.scheme}: or {part.scheme}::a.json"
            own = 'references in memory are the store fsspec.get_mapper("reference://", fo=references)'
            note = f"{first}; {own}" if part.scheme == "reference" else first
            raise noted(error, note if spec is None else "")
        if kind in ("root kvstore", "kvstore adapter"):
            spec = _kvstore(part, driver, spec)
            continue
        assert spec is not None
        if kind == "TensorStore adapter" and not is_array:
            spec = {"driver": "auto", "kvstore": spec}
        is_array = True
        with prefixed(f"Invalid TensorStore URL component {_quoted(part.text)}"):
            spec = (
                _adapted(part, driver, spec) if kind == "TensorStore adapter" else _format(part, driver, spec)
            )
    assert spec is not None
    return spec if is_array else {"driver": "auto", "kvstore": spec}


def _kvstore(part: Component, driver: str, base: dict[str, Any] | None) -> dict[str, Any]:
    """Return the kvstore of a component; `base` is the kvstore below an adapter."""
    if base is None and (cache := _CACHED.match(part.text)):
        from urllib.parse import unquote, urlsplit

        below = _kvstore(part._replace(text=part.text[cache.end() :]), driver, None)
        path = below.pop("path", "")
        if driver == "http":
            parts = urlsplit(below["base_url"])
            below["base_url"] = parts._replace(path="").geturl()
            path = unquote(parts.path, errors="surrogateescape")
        if driver == "file":
            below["path"], path = path[: len(path) - len(path.lstrip("/"))], path.lstrip("/")
        return {"driver": "cache", "base": below, **({"path": path} if path else {})}
    with prefixed(f"Invalid kvstore URL component {_quoted(part.text)}"):
        rest = part.rest
        if driver == "file" and rest.startswith("/") and not rest.startswith("//"):
            rest = "//" + rest  # RFC 8089: a file's URL needs no authority
        if base is None:
            if not rest.startswith("//"):
                raise InvalidArgumentError(f"Scheme {dump(part.scheme + '://')} not present in url")
            if driver in ("http", "s3", "gcs", "azure"):
                return {"driver": driver, **remote_members(driver, part.scheme, rest[2:], _path)}
            path = _path(rest[2:])
            if driver == "file":
                path = path_of_file_url(path)
            spec: dict[str, Any] = {"driver": driver}
        else:
            if rest.startswith("//"):
                raise InvalidArgumentError(f"Scheme {dump(part.scheme + ':')} not present in url")
            spec = {"driver": driver, "base": base}
            if driver == "ocdbt" and rest.startswith("@"):
                from chunkwise.core.kvstore.ocdbt.history import parse_version_text

                version, _, rest = rest[1:].partition("/")
                spec["version"] = parse_version_text(version).json
            path = _path(rest)
    if path:
        spec["path"] = path
    return spec


def _format(part: Component, driver: str, kvstore: dict[str, Any]) -> dict[str, Any]:
    path = _path(part.rest.removeprefix("//"))
    if path and driver in _OF_ONE_KEY:
        raise InvalidArgumentError("Path not supported")
    if driver == "json":
        if path and not path.startswith("/"):
            raise InvalidArgumentError(f"JSON Pointer does not start with '/': {dump(path)}")
        return {"driver": driver, "kvstore": kvstore, **({"json_pointer": path} if path else {})}
    if path:
        own = kvstore.get("path", "")
        between = "" if not own or own.endswith("/") else "/"
        kvstore = {**kvstore, "path": own + between + path}
    return {"driver": driver, "kvstore": kvstore}


def _adapted(part: Component, driver: str, base: dict[str, Any]) -> dict[str, Any]:
    dtype = _path(part.rest)
    if dtype not in dtypes:
        raise InvalidArgumentError(f"Unsupported data type: {dump(dtype)}")
    return {"driver": driver, "base": base, "dtype": dtype}


def _instead_of(part: Component, kinds: Mapping[str, Any]) -> str:
    """Return the advice for an unknown scheme."""
    if part.scheme in _OTHER_NAMES:
        return f"did you mean {_OTHER_NAMES[part.scheme]}?"
    more = "fsspec.get_mapper(URL) is accepted as a store too; " if part.rest.startswith("//") else ""
    return more + hint(part.scheme, kinds)


def _path(rest: str) -> str:
    """Decode the path of a component, after which nothing may follow."""
    rest, _, fragment = rest.partition("#")
    path, _, query = rest.partition("?")
    if query or fragment:
        part = "Query string" if query else "Fragment identifier"
        raise noted(InvalidArgumentError(f"{part} not supported"), ENCODED)
    wrong = _NOT_ENCODED.search(path)
    if wrong is not None:
        raise InvalidArgumentError(f"Invalid percent-encoding at position {wrong.start()}: {dump(path)}")
    if "%" not in path and path.isascii():
        return path
    from urllib.parse import unquote_to_bytes

    try:
        return unquote_to_bytes(path).decode()
    except UnicodeError:
        raise InvalidArgumentError(f"Invalid UTF-8 percent-encoding sequence: {dump(path)}") from None


def path_of_file_url(path: str, *, windows: bool = WINDOWS) -> str:
    """Return the path of a ``file`` URL, after ``file://``, without empty, "." and ".." components."""
    authority, slash, below = path.partition("/")
    root = "/"
    if authority not in ("", "localhost"):
        root = f"//{authority}/"  # a share on a server
    elif windows and re.match(_DRIVE, below):
        root = ""
    if root.startswith("//") and not windows:
        raise InvalidArgumentError(f"file: URIs do not support authority: {dump(authority)}")
    if not slash:
        raise InvalidArgumentError(f"file: URIs do not support relative paths: {dump(below)}")
    parts: list[str] = []
    for part in below.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    is_directory = below.rpartition("/")[2] in ("", ".", "..")
    return root + "/".join(parts) + ("/" if is_directory and parts else "")
