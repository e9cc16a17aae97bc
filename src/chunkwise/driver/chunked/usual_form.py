"""Documents of Zarr in the form that the specification has, where other programs write another.

Zarr v2: ``shape`` and ``chunks`` of one dimension as a number, which zarr-python reads.  Zarr v3:
``attributes`` and ``dimension_names`` of null, for none.  All that reads documents has the usual form.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise.binding import JSON

__all__ = ["usual_form"]

_SIZES = ("shape", "chunks")
_OPTIONAL = ("attributes", "dimension_names")


def usual_form(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a document of Zarr v2 or v3 with its members in the usual form."""
    out = dict(document)
    version = out.get("zarr_format")
    if version == 2:
        out.update({name: [out[name]] for name in _SIZES if type(out.get(name)) is int})
    elif version == 3:
        for name in _OPTIONAL:
            if name in out and out[name] is None:
                del out[name]
    return out
