"""Specs of local arrays that this process has parsed: programs open the same ones again and again.

A parsed spec is a function of its JSON, and is never changed but replaced, so it can be shared.  Most specs
of a program differ in nothing but the path, and then one of them is moved to where the next one is.  Only
files are kept: what else a spec may name can depend on the environment.
"""

from __future__ import annotations

import marshal
from typing import Any, NamedTuple

from chunkwise.driver.stack.alike import elsewhere, is_movable
from chunkwise.index_space import IndexTransform
from chunkwise.spec.driver_spec import DriverSpec
from chunkwise.spec.kvstores.file import FileKvStoreSpec
from chunkwise.spec.spec import Spec

__all__ = ["Place", "known_spec", "place_of", "remember_spec"]

_MAX_ENTRIES = 128
_MAX_NBYTES = 1 << 12
_TYPES_ONLY = 2  # format of marshal without references, so that equal values give equal bytes

_specs: dict[bytes, tuple[DriverSpec, IndexTransform | None]] = {}


class Place(NamedTuple):
    """Where a spec is kept.

    Attributes
    ----------
    key : bytes
        All that it says, or all but the path.
    path : str or None
        Of the kvstore, if `key` leaves it out.
    """

    key: bytes
    path: str | None


def place_of(spec: object, flags: tuple[object, ...]) -> Place | None:
    """Return where a spec is kept that is to be updated with `flags`; None if it should not be kept."""
    path: str | None = None
    said: Any = spec
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
            said = {**spec, "kvstore": {**kvstore, "path": None}}
        elif kvstore["path"][:1] != "/":
            return None
    elif type(spec) is not str or spec[:1] != "/":
        return None
    try:
        key = marshal.dumps((said, flags), _TYPES_ONLY)  # type: ignore[arg-type]
    except ValueError:  # something that is no JSON
        return None
    return Place(key, path) if len(key) <= _MAX_NBYTES else None


def known_spec(place: Place) -> Spec | None:
    """Return the spec that was kept at `place`, or the one of its kind that was, moved there."""
    found = _specs.get(place.key)
    if found is None:
        return None
    driver, transform = found
    if place.path is not None:
        try:
            path = FileKvStoreSpec.normal_path(place.path)
        except ValueError:  # parsing it tells what is wrong
            return None
        driver = elsewhere(driver, path if not path or path.endswith("/") else path + "/")
    return Spec._of(driver, transform)


def remember_spec(place: Place, spec: Spec) -> None:
    """Keep a spec as it is now."""
    if place.path is not None and not is_movable(spec._driver):
        return
    if len(_specs) >= _MAX_ENTRIES:
        _specs.clear()
    _specs[place.key] = (spec._driver, spec._transform)
