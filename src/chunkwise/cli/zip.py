"""``chunkwise zip``: put an array or a hierarchy into a ZIP archive."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, add_quiet, progress_of, tell
from chunkwise.copying.copy_source import check_apart
from chunkwise.copying.quantities import format_duration, format_nbytes
from chunkwise.copying.resolve import resolve
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.adapter.zip_write import export_archive
from chunkwise.errors import FailedPreconditionError
from chunkwise.extension.inside import hooks
from chunkwise.extension.trees import (
    add_attributes,
    check_outside_arrays,
    is_link,
    is_ome_archive,
    locate,
    location_of,
    on_trial,
    walk,
)

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise zip a.zarr a.zarr.zip
  chunkwise zip s3://bucket/a.zarr a.zarr.zip
  chunkwise info 'a.zarr.zip|zip:'

Chunks are stored as they are, not compressed again, and in the order of their names, so the same data give
the same archive; zarr-python reads it with ZipStore.  In *.ozx, OME-Zarr's archives, the documents zarr.json
come first, that of the root before the others.  The archive appears when it is complete.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("source", metavar="SRC", help="array or group, with everything below it")
    parser.add_argument("archive", metavar="ARCHIVE", help="path or URL of the archive")
    add_quiet(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing file")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    root, archive = resolve(arguments.source).as_node(), locate(arguments.archive)
    source = root.location
    if is_ome_archive(archive):
        assert archive.store_spec.base is not None
        archive = location_of(archive.store_spec.base, arguments.archive)
    key = archive.path.rstrip("/")
    if not key:
        raise UsageError(f'"{arguments.archive}" does not name a file')
    if arguments.archive.endswith("/"):
        raise UsageError(f'"{arguments.archive}" names a directory; expected the name of the archive')
    check_outside_arrays(archive)
    check_apart(source, archive)
    for name, node in walk(root):
        if node.error:
            raise FailedPreconditionError(f"{name or arguments.source} can't be archived: {node.error}")
        if name and is_link(node.location):
            raise FailedPreconditionError(
                f"{name} is a symbolic link, which an archive doesn't have: `chunkwise cp -r` to "
                f'"{arguments.archive}|zip:" copies what it leads to'
            )
    if added := hooks.find("label marks")(root, ""):  # in memory, so that the archive has them
        source = on_trial(source)
        add_attributes(source, added)
    below = PrefixStore(source.store, source.path)
    with progress_of(arguments, "archiving", None) as progress:
        done = export_archive(
            below, archive.store, key, overwrite=arguments.overwrite, progress=progress.advance
        )
    taken = format_duration(progress.seconds)
    text = f"{done.n_members:,} members, {format_nbytes(done.nbytes)} in {taken}"
    tell(arguments, {"archive": arguments.archive, **done._asdict()}, text)
    return 0
