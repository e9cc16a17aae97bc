"""Specs of local arrays that this process has parsed: programs open the same ones again and again.

A parsed spec is a function of its JSON, and is never changed but replaced, so it can be shared.  Only
absolute files are kept: what else a spec may name can depend on the environment.
"""

from __future__ import annotations

import marshal

from chunkwise.index_space import IndexTransform
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.spec.spec import Spec

__all__ = ["key_of", "known_spec", "remember_spec"]

_MAX_ENTRIES = 128
_MAX_NBYTES = 1 << 12
_TYPES_ONLY = 2  # format of marshal without references, so that equal values give equal bytes

_specs: dict[bytes, tuple[DriverSpec, IndexTransform | None]] = {}


def key_of(spec: object, flags: tuple[object, ...]) -> bytes | None:
    """Return what identifies a spec that is to be updated with `flags`; None if it should not be kept."""
    if type(spec) is dict:
        kvstore = spec.get("kvstore")
        if type(kvstore) is not dict or kvstore.get("driver") != "file":
            return None
        path = kvstore.get("path")
    else:
        path = spec
    if type(path) is not str or path[:1] != "/":
        return None
    try:
        key = marshal.dumps((spec, flags), _TYPES_ONLY)  # type: ignore[arg-type]
    except ValueError:  # something that is no JSON
        return None
    return key if len(key) <= _MAX_NBYTES else None


def known_spec(key: bytes) -> Spec | None:
    """Return the spec that was kept under `key`."""
    found = _specs.get(key)
    return None if found is None else Spec._of(*found)


def remember_spec(key: bytes, spec: Spec) -> None:
    """Keep a spec as it is now."""
    if len(_specs) >= _MAX_ENTRIES:
        _specs.clear()
    _specs[key] = (spec._driver, spec._transform)
