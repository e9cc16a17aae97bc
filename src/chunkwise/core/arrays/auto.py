"""Opening of arrays whose format is detected first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from chunkwise.core.arrays.open_chunked import open_chunked
from chunkwise.core.arrays.protocol import OpenArray, WrapStore
from chunkwise.core.base.binding import Members
from chunkwise.core.base.catalogue import KVSTORES, arrays, drivers, kvstores
from chunkwise.core.codec.pictures import sniff
from chunkwise.core.driver.auto.detect import NoFormatError, detect_format
from chunkwise.core.driver.auto.found_instead import directory_kind, file_kind, found_instead, group_instead
from chunkwise.core.driver.auto.one_picture import is_one_picture
from chunkwise.core.driver.auto.spec import AutoSpec
from chunkwise.core.driver.flow import run
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, Stamped
from chunkwise.core.kvstore.value import PageInsteadError, read_bounded
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, kvstore_missing
from chunkwise.errors import ChunkwiseError, OutOfRangeError, PermissionDeniedError, prefix

__all__ = ["open_auto"]

E = TypeVar("E", bound=ChunkwiseError)


def open_auto(spec: AutoSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> OpenArray:
    """Open the array of a bound spec with the driver that its files require."""
    if spec.kvstore is None:
        raise kvstore_missing()
    assert spec.live is not None, "the spec is not bound"
    place = spec.kvstore
    if place.driver == "tiff_images" and not place.path and place.base is not None:
        place = place.base  # the content of a file stands for the file
    head = _head(place)
    inside = _inside_file(place, head, spec.live)
    driver = None if inside else sniff(head)
    document: Stamped | None = None
    kvstore = inside or (place if driver else place.as_directory())
    while driver is None or driver in KVSTORES:
        if driver is not None:  # everything below the directory is in a database
            inside = kvstore = _inside(driver, kvstore, spec.live)
        store, path = kvstore.open_driver()
        seen = store if wrap is None else wrap(store, getattr(kvstore, "atomic", True))
        try:
            driver, document = run(detect_format(path, store.describe), seen, map_requests)
        except NoFormatError as e:
            file = place.with_path(place.path.rstrip("/"))
            if not inside and directory_kind(store, path) == "reference":
                driver = "reference"
                continue
            if file.path != place.path and _head(file):  # a file, named as a directory
                return open_auto(replace(spec, kvstore=file), readable=readable, writable=writable, wrap=wrap)
            raise _explained(e, kvstore if inside else place, found_instead) from None
    parsed = drivers.find(driver)(Members({}), SpecMembers(spec.schema, None))
    spec_found = parsed.with_kvstore(kvstore).with_recheck(**spec.recheck)
    options: dict[str, Any] = {} if wrap is None else {"wrap": wrap}
    open_found = arrays.find(driver)
    if open_found is open_chunked and kvstore.base is None:  # other stores need a read to find out
        options["seen"] = document  # read just now, so that it isn't requested again
    try:
        array: OpenArray = open_found(
            spec_found.bind(spec.live), readable=readable, writable=writable, **options
        )
    except ChunkwiseError as e:
        raise _explained(prefix(e, f'Error opening "{driver}" driver'), place) from None
    return array


def _explained(
    error: E, kvstore: KvStoreSpec, otherwise: Callable[[KvStoreDriver, str, str], str] | None = None
) -> E:
    """Return an error that names the content: a group, or whatever `otherwise` finds."""
    store, path = kvstore.open_driver()
    path = f"{path.rstrip('/')}/" if path else ""
    text = _text(kvstore, lambda: store.describe(path).strip('"'))
    found = group_instead(store, path, text)
    if not found and otherwise is not None:
        found = otherwise(store, path, text)
    if found:
        error.message += f"; {found}"
    return error


def _text(kvstore: KvStoreSpec, described: Callable[[], str]) -> str:
    """Return the text that a user would write for a kvstore."""
    if kvstore.driver == "file":
        return kvstore.path
    if kvstore.driver == "object":
        return ""
    if kvstore.base is not None and kvstore.base.driver == "file":
        scheme = kvstore.driver.replace("_", "-")
        return f"{kvstore.base.path}|{scheme}:{kvstore.path}"
    return described()


def _head(kvstore: KvStoreSpec) -> bytes:
    """Return the first bytes of the value at the path of `kvstore`; empty if there is none."""
    if not kvstore.path or kvstore.path.endswith("/"):
        return b""
    store, key = kvstore.open_driver()
    for n in (12, 4):  # first bytes of a picture, and of another file
        try:
            return bytes(read_bounded(store, key, byte_range=ByteRange(0, n)).value or b"")
        except OutOfRangeError:
            continue
        # A page lists a directory; a login takes the place of the documents too.  A refusal may be about a
        # missing key, and the documents of arrays are looked for.
        except (PageInsteadError, PermissionDeniedError):
            break
    return b""


def _part(kvstore: KvStoreSpec, at: int, n: int) -> bytes:
    store, key = kvstore.open_driver()
    try:
        return bytes(read_bounded(store, key, byte_range=ByteRange(at, at + n)).value or b"")
    except OutOfRangeError:
        return b""


def _read(kvstore: KvStoreSpec) -> Any:
    store, key = kvstore.open_driver()
    return store.read(key).value


def _inside_file(kvstore: KvStoreSpec, head: bytes, live: Context) -> KvStoreSpec | None:
    """Return the root of the tree in the file at the path of `kvstore`; None if it is no such file."""
    kind = file_kind(head, kvstore.path, lambda: _read(kvstore))
    if kind is None or (kind == "tiff_images" and is_one_picture(lambda at, n: _part(kvstore, at, n))):
        return None
    path = {"path": "0/"} if kind == "tiff_images" else {}  # the largest level of a pyramid
    return _inside(kind, kvstore, live, **path)


def _inside(kind: str, kvstore: KvStoreSpec, live: Context, **members: str) -> KvStoreSpec:
    """Return the kvstore `kind` over another one."""
    inside: KvStoreSpec = kvstores.find(kind).parse(Members({"base": kvstore, **members}))
    return inside.bind(live)
