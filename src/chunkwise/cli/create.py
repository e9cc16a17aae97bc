"""``chunkwise create``: make an array."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, print_json
from chunkwise.cli.options import parse_json, parse_sizes
from chunkwise.cli.template_options import (
    add_template_arguments,
    check_ranks,
    choose_format,
    template_options,
)
from chunkwise.hierarchy.location import locate
from chunkwise.hierarchy.node import require_node
from chunkwise.tools.array_template import ArrayTemplate
from chunkwise.tools.new_array import create_array
from chunkwise.tools.target import target_spec

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="where the array is to be")
    parser.add_argument("--shape", required=True, metavar="SIZES", help="such as 1000,1000,400")
    add_template_arguments(parser)
    parser.add_argument("--attributes", metavar="JSON", help="attributes as a JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    location = locate(arguments.path)
    format = choose_format(arguments, location)
    shape = parse_sizes(arguments.shape, "shape", lowest=0)
    if arguments.dtype is None:
        raise UsageError("--dtype is needed: uint8, float32, ...")
    options = template_options(arguments)
    check_ranks(options, len(shape))
    attributes = {} if arguments.attributes is None else parse_json(arguments.attributes, "--attributes")
    if not isinstance(attributes, dict):
        raise UsageError("--attributes: expected a JSON object")
    template = ArrayTemplate(shape=shape, attributes=attributes, **options)
    target = target_spec(template, format, list(options))
    for note in target.notes:
        message(note)
    store = create_array(location, target)
    if arguments.json:
        node = require_node(location)
        print_json({"path": arguments.path, "format": format, "metadata": dict(node.document)})
    else:
        layout = store.chunk_layout
        chunks, shards = layout.read_chunk.shape, layout.write_chunk.shape
        inside = "" if shards == chunks else f" in shards {list(shards or ())}"
        print(
            f"{arguments.path}: {format} {store.dtype.name} {list(store.shape)}, "
            f"chunks {list(chunks or ())}{inside}"
        )
    return 0
