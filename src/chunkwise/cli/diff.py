"""``chunkwise diff``: list the differences of two arrays or hierarchies, whatever their formats."""

from __future__ import annotations

import argparse
from dataclasses import replace

from chunkwise.cli.command import message, progress_of, tell, text_of
from chunkwise.cli.options import add_memory, add_on, workers_of
from chunkwise.copying.difference import Difference, differences
from chunkwise.copying.quantities import plural
from chunkwise.errors import ChunkwiseError

__all__ = ["add_arguments", "run"]

_EPILOG = """\
Structure, links, shapes, data types, names and units of dimensions, attributes and values are compared.
Formats may differ: what each stores in its own way is compared by meaning.  NWB and HDMF files, HDF5
included, are compared by what HDMF means.

Exit status: 0 if there is no difference, 1 if there is, 2 if they can't be compared.
"""

_DIFFERENT, _TROUBLE = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("left", metavar="LEFT", help="array or group")
    parser.add_argument("right", metavar="RIGHT", help="array or group")
    parser.add_argument("--no-attributes", action="store_true", help="don't compare attributes")
    parser.add_argument("--no-values", action="store_true", help="don't read any chunk")
    parser.add_argument(
        "--layout", action="store_true", help="compare format, chunks, fill values and compression too"
    )
    add_on(parser)
    add_memory(parser, "memory of each process for blocks, such as 500MB")
    parser.add_argument("--quiet", action="store_true", help="stop at the first difference and print nothing")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if there is a difference, 2 after a failure."""
    found: list[Difference] = []
    try:
        workers = workers_of(arguments)
        if arguments.memory is not None:
            workers = replace(workers, memory=arguments.memory)
        with progress_of(arguments, "comparing", None, workers=workers) as progress:
            for difference in differences(
                arguments.left,
                arguments.right,
                attributes=not arguments.no_attributes,
                values=not arguments.no_values,
                layout=arguments.layout,
                executor=workers,
                progress=progress.advance,
            ):
                found.append(difference)
                if arguments.quiet:
                    return _DIFFERENT
                if not arguments.json:
                    progress.clear()
                    print(difference)
    except (ChunkwiseError, OSError, ValueError, NotImplementedError) as e:
        message(text_of(e))
        return _TROUBLE
    if not arguments.quiet:
        text = plural(len(found), "difference") if found else "no differences"
        tell(arguments, [difference._asdict() for difference in found], text)
    return _DIFFERENT if found else 0
