"""``chunkwise migrate``: Zarr v1 and v2 arrays become Zarr v3 ones, without their chunks being rewritten."""

from __future__ import annotations

import argparse
import json

from chunkwise.api.migrate import migrate
from chunkwise.cli.command import message, print_json, printable

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise migrate PATH                    show what would be done
  chunkwise migrate PATH --apply            do it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="array of Zarr v1 or v2")
    parser.add_argument("--apply", action="store_true", help="do it; without, nothing is written")
    parser.add_argument("--keep-old", action="store_true", help="leave the old metadata beside the new one")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    done = migrate(arguments.path, apply=arguments.apply, keep_old=arguments.keep_old)
    if arguments.json:
        print_json({"path": arguments.path, **done._asdict()})
        return 0
    verb = "written" if done.applied else "would be written"
    print(f"zarr.json {verb}:")
    print(json.dumps(printable(done.document), indent=2, ensure_ascii=False))
    if done.removed:
        print(f"{'removed' if done.applied else 'would be removed'}: {', '.join(done.removed)}")
    for note in done.notes:
        print(f"note: {note}")
    if not done.applied:
        message("nothing was changed; --apply does it")
    return 0
