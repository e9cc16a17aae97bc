"""Documents of Zarr in the form that the specification has, where other programs write another.

``shape`` of one dimension as a number, and ``chunks`` in Zarr v2, as zarr-python reads them.  Zarr v3:
``attributes``, ``dimension_names`` and ``storage_transformers`` of null, for none.  All that reads documents
has the usual form.
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
