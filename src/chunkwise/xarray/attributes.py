"""Attributes of a variable as each format has them.

In N5 some names are members of the dataset's metadata.  CF's ``units`` is text, while that of N5 is a list
with the unit of each dimension, and other software refuses a dataset with anything else.  So attributes with
such names, and null attributes, which N5 software treats as missing, are stored as members of an object in
the attribute ``xarray``.

Attributes whose names begin with ``_nc`` are NCZarr's own (``_nczarr_attr``, ``_NCProperties``); datasets
don't show them, as in xarray's own engine.  The same goes for a kept fingerprint: it belongs to the elements
of one array, and would be wrong for values computed from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.copying.array_template import FINGERPRINT
from chunkwise.extension.inside import DATASET_MEMBERS

__all__ = ["hide_attributes", "restore_attributes", "without_fingerprint", "without_nczarr"]

_MEMBER = "xarray"
_TAKEN = (*DATASET_MEMBERS, "compressionType", "codecs", "n5", _MEMBER)


def without_nczarr(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that NCZarr keeps for itself, such as ``_nczarr_array``."""
    return {name: value for name, value in attributes.items() if not name.lower().startswith("_nc")}


def without_fingerprint(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without the fingerprint that a copy keeps."""
    return {name: value for name, value in attributes.items() if name != FINGERPRINT}


def hide_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes that N5 can hold: the others move into the attribute ``xarray``."""
    hidden = {name: value for name, value in attributes.items() if name in _TAKEN or value is None}
    shown = {name: value for name, value in attributes.items() if name not in hidden}
    return {**shown, _MEMBER: hidden} if hidden else shown


def restore_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `hide_attributes` was given; leave others unchanged."""
    hidden = attributes.get(_MEMBER)
    if not isinstance(hidden, Mapping) or not all(name in _TAKEN or v is None for name, v in hidden.items()):
        return dict(attributes)
    return {**{name: value for name, value in attributes.items() if name != _MEMBER}, **hidden}
