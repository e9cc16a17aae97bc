"""Opening an array whose format is found out first."""

from __future__ import annotations

from chunkwise.arrays.protocol import OpenArray, WrapStore
from chunkwise.binding import Members
from chunkwise.catalogue import arrays, drivers, kvstores
from chunkwise.driver.auto.detect import detect_format
from chunkwise.driver.auto.spec import AutoSpec
from chunkwise.engine.flow import run
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfRangeError, prefix
from chunkwise.kvstore.protocol import ByteRange
from chunkwise.spec.context import Context
from chunkwise.spec.kvstore_spec import KvStoreSpec
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["open_auto"]

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of an archive: those of its first member, or of its end if it has none."""


def open_auto(spec: AutoSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> OpenArray:
    """Open the array of a bound spec with the driver that its files call for."""
    if spec.kvstore is None:
        raise InvalidArgumentError('"kvstore" must be specified')
    assert spec.live is not None, "the spec is not bound"
    kvstore = _inside_archive(spec.kvstore, spec.live) or spec.kvstore.as_directory()
    kv, path = kvstore.open_driver()
    seen = kv if wrap is None else wrap(kv, getattr(kvstore, "atomic", True))
    driver = run(detect_format(path, kv.describe), seen)
    parsed = drivers.find(driver)(Members({}), SpecMembers(spec.schema, None))
    found = parsed.with_kvstore(kvstore).with_recheck(**spec.recheck)
    options = {} if wrap is None else {"wrap": wrap}
    try:
        array: OpenArray = arrays.find(driver)(
            found.bind(spec.live), readable=readable, writable=writable, **options
        )
    except ChunkwiseError as e:
        raise prefix(e, f'Error opening "{driver}" driver') from None
    return array


def _inside_archive(kvstore: KvStoreSpec, live: Context) -> KvStoreSpec | None:
    """Return the root of the ZIP archive that `kvstore` is the path of; None if it is no such path."""
    if not kvstore.path or kvstore.path.endswith("/"):
        return None
    kv, key = kvstore.open_driver()
    try:
        head = kv.read(key, byte_range=ByteRange(0, len(_ZIP[0]))).value
    except OutOfRangeError:  # it is shorter than that
        return None
    if head is None or bytes(head) not in _ZIP:
        return None
    archive: KvStoreSpec = kvstores.find("zip").parse(Members({"base": kvstore}))
    return archive.bind(live)
