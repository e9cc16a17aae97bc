"""Names of dimensions, wherever a format has them.

======  ========================================================================================
zarr3   member ``dimension_names``; failing that, as in Zarr v2
zarr2   attribute ``_ARRAY_DIMENSIONS``; failing that, ``dimrefs`` of NCZarr's ``_NCZARR_ARRAY``
n5      member ``axes``
======  ========================================================================================

A dimension without a name is called after its variable: ``a_dim_0`` is the first one of ``a``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.tools.array_template import NAMES

__all__ = ["dimension_names"]

_NCZARR = "_NCZARR_ARRAY"


def dimension_names(
    variable: str, rank: int, format: str, document: Mapping[str, Any], attributes: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names, and the attributes that a dataset doesn't show, since they are nothing but names."""
    found: Any = None
    hidden: tuple[str, ...] = ()
    if format == "n5":
        found, hidden = document.get("axes"), ("axes",)
    elif format == "zarr3":
        found = document.get("dimension_names")
    if _names(found, rank) is None and format != "n5":
        found, hidden = attributes.get(NAMES), (NAMES,)
        if _names(found, rank) is None:
            found = _nczarr(document, attributes)
            hidden = (*hidden, _NCZARR)
    names = _names(found, rank)
    if names is None:
        names, hidden = (None,) * rank, ()
    named = tuple(name or f"{variable}_dim_{dim}" for dim, name in enumerate(names))
    return named, hidden


def _names(value: Any, rank: int) -> tuple[str | None, ...] | None:
    if not isinstance(value, list | tuple) or len(value) != rank:
        return None
    return tuple(value) if all(name is None or isinstance(name, str) for name in value) else None


def _nczarr(document: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str] | None:
    """Return the names in NCZarr's own metadata: the last parts of paths such as ``/group/x``."""
    for members in (document, attributes):
        own = members.get(_NCZARR)
        references = own.get("dimrefs") if isinstance(own, Mapping) else None
        if isinstance(references, list):
            return [str(reference).rpartition("/")[2] for reference in references]
    return None
