"""``chunkwise cp -r`` of NWB and HDMF files: only a conversion can write them in another format."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, required
from chunkwise.cli.cp_tree import copy_options
from chunkwise.cli.nwb import run_conversion as run_nwb_conversion
from chunkwise.cli.template_options import choose_format
from chunkwise.copying.copy_options import flags_of_copies
from chunkwise.extension.trees import Location, Node, node_attributes

__all__ = ["is_converted", "run_conversion"]

_MARKS = {"nwb_version", ".specloc"}
"""Attributes of the root of every NWB file, and of any file with a cached schema."""

_OPTIONS = {
    "dtype": "--dtype",
    "chunk": "--chunk",
    "shard": "--shard",
    "fill_value": "--fill-value",
    "dimension_names": "--dimension-names",
    "units": "--units",
    "codec": "--codec",
    "region": "--region",
    "layout": "--layout",
    "part": "--part",
    "dry_run": "--dry-run",
    "checksum": "--checksum",
}
"""Options of ``cp`` that a conversion doesn't have, beside those of `CopyOptions`."""

_TAKEN = {"verify", "resume", "overwrite"}


def is_converted(arguments: argparse.Namespace, root: Node, destination: Location) -> bool:
    """Return True if a group is an NWB or HDMF file that a plain copy would break."""
    attributes = root.document.get("hdmf_attributes") if root.format == "n5" else node_attributes(root)
    if not isinstance(attributes, dict) or not _MARKS & set(attributes):
        return False
    return (
        _is_hdf5(root.location)
        or choose_format(arguments, destination, root.own_format, kind="group") != root.format
    )


def _is_hdf5(location: Location) -> bool:
    return location.base.get("driver") == "hdf5"


def run_conversion(arguments: argparse.Namespace, root: Node) -> int:
    """Convert the file at the source, of which `root` is the root."""
    values = {name: getattr(arguments, option, None) for option, name in _OPTIONS.items()}
    how = copy_options(arguments)
    flags = [flag for flag in flags_of_copies() if flag.name not in _TAKEN]
    given = [flag.metadata["flag"] for flag in flags if getattr(how, flag.name) != flag.default]
    given += [name for name, value in values.items() if value is not None and value is not False]
    if given:
        raise UsageError(
            f"{arguments.source} is an NWB file, which is converted as by `chunkwise nwb convert`, without "
            f"{', '.join(given)}"
        )
    with required("a copy of an NWB file in another format", "hdmf"):
        import hdmf  # noqa: F401
    path, file = arguments.source, root.location.store_spec.base
    if _is_hdf5(root.location) and file is not None:
        if file.driver != "file":
            raise UsageError(f"{path} is an NWB file in HDF5, which is converted from local files only")
        path = file.path
    message(f"{arguments.source} is an NWB file: it is converted")
    return run_nwb_conversion(arguments, path, arguments.destination, {})
