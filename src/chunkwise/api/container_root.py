"""Which N5 container a place is in: what tells a group without a document from a mere directory."""

from __future__ import annotations

from chunkwise.api.location import Location
from chunkwise.driver.n5.document import load_document
from chunkwise.errors import PermissionDeniedError, SpecError

__all__ = ["container_root"]

_SUFFIX = ".n5"


def container_root(location: Location) -> Location | None:
    """Return the root of the N5 container that `location` is in, itself included; None if there is none.

    That is the nearest group with a version; failing that, the nearest whose name ends in ``.n5``.
    """
    named = None
    at: Location | None = location
    while at is not None:
        try:
            raw = at.kv.read(at.path + "attributes.json").value
            document = None if raw is None else load_document(raw)
        except (PermissionDeniedError, SpecError):  # somebody else's, or no document of N5
            document = None
        if isinstance(document, dict) and "n5" in document:
            return at
        if named is None and at.name.endswith(_SUFFIX):
            named = at
        at = at.parent
    return named
