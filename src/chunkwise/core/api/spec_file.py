"""Files called ``*.json`` with the spec of an array, such as a stack."""

from __future__ import annotations

import os

from chunkwise.core.base.binding import JSON, parse_json
from chunkwise.core.base.catalogue import DRIVERS
from chunkwise.core.driver.auto.detect import is_references
from chunkwise.core.kvstore.value_bound import read_bounded
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.url import is_url
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = ["read_spec_file"]

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
