"""Documents of Zarr converted to the specification's form, if other programs write another.

One-dimensional ``shape`` as a number, and ``chunks`` in Zarr v2, are read as in zarr-python.  In Zarr v3,
``attributes``, ``dimension_names`` and ``storage_transformers`` may be null for none.  All readers of
documents get the usual form.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.core.base.binding import JSON

__all__ = ["usual_form"]

_SIZES = ("shape", "chunks")
_OPTIONAL = ("attributes", "dimension_names", "storage_transformers")


def usual_form(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a document of Zarr v2 or v3 with its members in the usual form."""
    out = dict(document)
    version = out.get("zarr_format")
    if version in (2, 3):
        out.update({name: [out[name]] for name in _SIZES[: 4 - version] if type(out.get(name)) is int})
    if version == 3:
        for name in _OPTIONAL:
            if name in out and out[name] is None:
                del out[name]
    return out
