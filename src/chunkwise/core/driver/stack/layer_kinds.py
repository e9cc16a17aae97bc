"""Specs of layers that differ only in path or elements, which are changed together.

A stack of ten thousand tiles has ten thousand specs that differ only in path or elements, and in transform.
The fields of such specs are the same objects, by which they are recognized.
"""

from __future__ import annotations

from collections.abc import Callable

from chunkwise.core.base.cached import copied
from chunkwise.core.driver.array.spec import ArraySpec
from chunkwise.core.driver.chunked.spec import elsewhere, is_movable
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec

__all__ = ["for_each_kind", "kind_of"]


def for_each_kind(
    drivers: tuple[DriverSpec, ...], change: Callable[[DriverSpec], DriverSpec]
) -> tuple[DriverSpec, ...]:
    """Return the result of `change` for each spec, calling it once for specs of one kind."""
    # Its result must not depend on the path of a movable spec, or the elements of an array.
    known: dict[object, DriverSpec] = {}
    out = []
    for driver in drivers:
        if isinstance(driver, ArraySpec):
            kind = _fields(driver, "array")
            changed = known.get(kind)
            if changed is None:
                known[kind] = changed = change(driver)
            out.append(copied(changed, array=driver.array))
            continue
        kvstore = driver.kvstore
        if kvstore is None or not is_movable(driver):
            out.append(change(driver))
            continue
        kind = kind_of(driver, kvstore)
        changed = known.get(kind)
        if changed is None:
            known[kind] = changed = change(driver)
        if changed.kvstore is None:
            out.append(change(driver))
        else:
            out.append(elsewhere(changed, kvstore.path))
    return tuple(out)


def kind_of(driver: DriverSpec, kvstore: KvStoreSpec) -> tuple[object, ...]:
    """Return a key that is equal for movable specs that differ only in the path of their kvstores."""
    # The key consists of identities, and is meaningless once the specs are gone.
    return _fields(driver, "kvstore"), _fields(kvstore, "path")


def _fields(record: DriverSpec | KvStoreSpec, own: str) -> tuple[object, ...]:
    fields = record.__dict__.copy()
    fields.pop(own, None)
    return (type(record), *map(id, fields.values()))
