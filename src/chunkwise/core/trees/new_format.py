"""The format of a new array or group: by what the caller says, its name, the group above, its source.

In this order: an option; the driver of a spec, or the scheme of a URL such as ``x|n5:``; the suffix of the
name; the group above; the source.  A suffix such as ``.zarr`` fits several formats; the group above, or else
the source, then decides among them.  A suffix that contradicts the group above is an error, since software
that lists the group would not find the new node.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Literal, TypeAlias

from chunkwise.core.base.binding import dump
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import FORMATS, tree_format
from chunkwise.core.trees.location import Location, is_ome_archive
from chunkwise.core.trees.look import node_above
from chunkwise.core.trees.node import DOCUMENTS, Node
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import InvalidArgumentError

__all__ = ["VOLUME", "Kind", "format_of", "format_said", "is_named", "is_volume"]

VOLUME = "neuroglancer_precomputed"
"""Name of the format, and driver, of volumes that are no nodes of a tree."""

Kind: TypeAlias = Literal["array", "group", "volume"]

_SUFFIXES: dict[str, tuple[FormatName, ...]] = {
    ".zarr": ("zarr3", "zarr2", "zarr1"),
    ".zarr3": ("zarr3",),
    ".zarr2": ("zarr2",),
    ".n5": ("n5",),
}
"""Formats that a suffix of a directory can mean, the usual one first."""

_PICTURES = "chunkwise writes no pictures but those of `chunkwise slice --png`"
_FILES: dict[str, str] = {
    **dict.fromkeys((".h5", ".hdf5", ".nwb"), "HDF5 is written by `chunkwise nwb convert`"),
    **dict.fromkeys((".nc", ".nc4"), "netCDF is written by xarray, with Dataset.to_netcdf"),
    **dict.fromkeys((".tif", ".tiff"), "TIFF is written by tifffile, with tifffile.imwrite"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".webp", ".avif", ".bmp"), _PICTURES),
    ".npy": "NumPy's files are written by `chunkwise slice --npy`",
    ".npz": "NumPy's files are written by NumPy",
    ".json": "specs of stacks are written by `chunkwise stack`",
    ".zip": "archives are written by `chunkwise zip`",
}
"""Suffixes of files, with the command or library that writes them."""

_SPEC_MEMBERS = {"driver", "open"}


def format_of(
    location: Location,
    kind: Kind,
    *,
    format: str | None = None,
    source: str | None = None,
    default: FormatName = "zarr3",
    is_directory: bool = False,
    above: Node | EllipsisType | None = ...,
) -> FormatName:
    """Return the format of a new node at a location; raise if the request is contradictory."""
    # `is_directory`: whatever its name.  `above` is the node above, if that is known.
    _check_members(location)
    said = format_said(location, format)
    if said is None:
        if kind == "group" and source is not None and not tree_format(source).group_key:
            source = None
        above = node_above(location) if above is ... else above
        names = _names_below(location, above)
        if not is_directory:
            _check_no_file(names[0])
        said = check_format(_suggested_format(location, names, above, source) or default)
    if is_ome_archive(location) and said != "zarr3":
        raise InvalidArgumentError(
            f"{location.text}: an archive of OME-Zarr (*.ozx) is Zarr v3, not {tree_format(said).title}; "
            "one of another format is named *.zip"
        )
    return check_format(said, group=kind == "group")


def _suggested_format(
    location: Location, names: Sequence[str], above: Node | None, source: str | None
) -> str | None:
    """Return the format by the suffix, else of the group above, else of the source."""
    if is_ome_archive(location):
        return "zarr3"
    fitting, name = next(((found, at) for at in names if (found := _SUFFIXES.get(_suffix(at), ()))), ((), ""))
    around = above.format if above is not None and above.kind == "group" else None
    if around is not None and fitting and around not in fitting:
        raise InvalidArgumentError(
            f"{dump(name)} is a name for {tree_format(fitting[0]).title}, but {location.text} is in a tree "
            f'of {tree_format(around).title}, where it would not be found: say format="{around}" '
            f'(--format {around}) or format="{fitting[0]}" (--format {fitting[0]}), or choose another name'
        )
    if around is not None or not fitting:
        return around or source
    return source if source in fitting else fitting[0]


def is_named(name: str, format: str) -> bool:
    """Return True if the suffix of a name can mean a format."""
    return format in _SUFFIXES.get(_suffix(name), ())


def is_volume(location: Location, format: str | None) -> bool:
    """Return True if a precomputed volume is to be written, by an option, a driver or the scheme of a URL."""
    driver = location.members.get("driver", "auto")
    if VOLUME not in (driver, format):
        return False
    _check_members(location)
    if driver not in ("auto", VOLUME) or format not in (None, VOLUME):
        raise InvalidArgumentError(
            f"{location.text}: its driver is {dump(driver)}, but format is {dump(format)}"
        )
    return True


def format_said(location: Location, format: str | None) -> FormatName | None:
    """Return the format that an option, the driver of a spec, or the scheme of a URL says; None if none."""
    said = None if format is None else check_format(format)
    driver = location.members.get("driver", "auto")
    if driver == "auto":
        return said
    if driver == VOLUME:
        raise InvalidArgumentError(
            f"{location.text}: a precomputed volume is written by copies (copy, copy_tree, `chunkwise cp`), "
            "and by chunkwise.open with create=True, not here"
        )
    if driver not in FORMATS:
        raise InvalidArgumentError(
            f"{location.text}: chunkwise doesn't write {dump(driver)}; expected a driver of "
            f"{', '.join(dump(name) for name in FORMATS)}"
        )
    named = FORMATS[str(driver)]
    if said not in (None, named):
        raise InvalidArgumentError(
            f"{location.text}: its driver {dump(driver)} is {tree_format(named).title}, but format is "
            f"{dump(said)}"
        )
    return named


def _check_members(location: Location) -> None:
    """Raise InvalidArgumentError for members of a spec that say how an array is to be."""
    others = sorted(set(location.members) - _SPEC_MEMBERS)
    if others:
        raise InvalidArgumentError(
            f"{location.text}: {dump(others[0])} of the spec isn't used here, where a spec gives location "
            "and format; chunkwise.open creates an array from a whole spec"
        )


def _suffix(name: str) -> str:
    _, dot, suffix = name.lower().rpartition(".")
    return dot + suffix


def _check_no_file(name: str) -> None:
    suffix = _suffix(name)
    if suffix in _FILES and name not in DOCUMENTS:
        raise InvalidArgumentError(
            f"{dump(name)} is the name of a file, and arrays and groups are directories: {_FILES[suffix]}; "
            'a name such as "x.zarr" or "x.n5", or format=, makes a directory'
        )


def _names_below(location: Location, above: Node | None) -> list[str]:
    """Return the names from a location up to the node above."""
    start = 0 if above is None else len(above.location.path)
    return location.path[start:].rstrip("/").split("/")[::-1]
