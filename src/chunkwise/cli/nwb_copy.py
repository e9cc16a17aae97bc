"""``chunkwise cp -r`` of NWB and HDMF files: only a conversion can write them in another format."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, required
from chunkwise.cli.cp_tree import copy_options
from chunkwise.cli.nwb import run_conversion as run_nwb_conversion
from chunkwise.copying.conventions import converted_name
from chunkwise.copying.copy_options import flags_of_copies
from chunkwise.extension.trees import Node

__all__ = ["run_conversion"]

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
    path = converted_name(root.location._replace(text=arguments.source))
    if path is None:
        raise UsageError(
            f"{arguments.source} is an NWB file in HDF5, which is converted from local files only"
        )
    message(f"{arguments.source} is an NWB file: it is converted")
    return run_nwb_conversion(arguments, path, arguments.destination, {})
