"""Specs in files, and a cache of parsed specs of local arrays, which programs open repeatedly.

A parsed spec depends only on its JSON, and is replaced instead of changed, so it can be shared.  Most specs
of a program differ only in the path; then a cached one is copied with the new path.  Only specs of files are
cached: others may depend on the environment.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON, parse_json
from chunkwise.core.base.cached import json_key, put_bounded
from chunkwise.core.base.catalogue import DRIVERS
from chunkwise.core.driver.auto import is_references
from chunkwise.core.driver.chunked.spec import elsewhere, is_movable
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstores.local import FileKvStoreSpec
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.url import is_url
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = ["SpecKey", "cache_spec", "cached_spec", "read_spec_file", "spec_key"]


_SUFFIX = ".json"


def read_spec_file(place: str | os.PathLike[str], context: Context | None = None) -> dict[str, JSON] | None:
    """Return the spec in a file ``*.json``, perhaps given as URL.

    Return None if `place` is not such a file, or has references of kerchunk.
    """
    text = os.fspath(place)
    scheme = text.rpartition("|")[2].partition(":")[0] if "|" in text else ""
    if not text.lower().endswith(_SUFFIX) or scheme.replace("-", "_") in DRIVERS:  # such as "|json:/a.json"
        return None
    if is_url(text):
        from chunkwise.core.trees.location import locate

        try:
            location = locate(text, context)
            raw = read_bounded(location.store, location.path.rstrip("/")).value
        except ChunkwiseError:  # a directory with this name, no access, ...: opening reports the error
            return None
    else:
        raw = None
        if os.path.isfile(text):
            with open(text, "rb") as file:
                raw = file.read()
    if raw is None:
        return None
    if is_references(bytes(raw)):  # the content of a file, as that of HDF5
        return None
    try:
        spec = parse_json(bytes(raw))
    except ValueError as e:
        raise FailedPreconditionError(f"{text}: Invalid JSON: {e}") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("driver"), str):
        raise FailedPreconditionError(
            f'{text}: expected the spec of an array, a JSON object with the member "driver"'
        )
    return spec


_MAX_NBYTES = 1 << 12

_specs: dict[bytes, tuple[DriverSpec, IndexTransform | None]] = {}


class SpecKey(NamedTuple):
    """Key of a spec: its content, and its kvstore's path if the content leaves that out."""

    content: bytes
    path: str | None


def spec_key(spec: object, flags: tuple[object, ...]) -> SpecKey | None:
    """Return the key of a spec to be updated with `flags`; None if it should not be cached."""
    path: str | None = None
    content: Any = spec
    if type(spec) is dict:
        kvstore = spec.get("kvstore")
        if (
            type(kvstore) is not dict
            or kvstore.get("driver") != "file"
            or type(kvstore.get("path")) is not str
        ):
            return None
        if "path" not in spec:
            path = kvstore["path"]
            content = {**spec, "kvstore": {**kvstore, "path": None}}
        elif kvstore["path"][:1] != "/":
            return None
    elif type(spec) is not str or spec[:1] != "/":
        return None
    encoded = json_key((content, flags), _MAX_NBYTES)
    return None if encoded is None else SpecKey(encoded, path)


def cached_spec(key: SpecKey) -> Spec | None:
    """Return the spec of a key, or one that differs only in its path, with the path of the key."""
    found = _specs.get(key.content)
    if found is None:
        return None
    driver, transform = found
    if key.path is not None:
        try:
            path = FileKvStoreSpec.normal_path(key.path)
        except ValueError:  # parsing will raise the error
            return None
        driver = elsewhere(driver, path if not path or path.endswith("/") else path + "/")
    return Spec._of(driver, transform)


def cache_spec(key: SpecKey, spec: Spec) -> None:
    """Put the current state of a spec into the cache."""
    if key.path is not None and not is_movable(spec._driver):
        return
    put_bounded(_specs, key.content, (spec._driver, spec._transform))
