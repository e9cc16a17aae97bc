"""``chunkwise create``: make an array."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, show
from chunkwise.cli.options import parse_json, sizes
from chunkwise.cli.template_options import (
    add_template_arguments,
    check_ranks,
    choose_format,
    template_options,
)
from chunkwise.copying.array_options import check_named, for_array, for_format
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.new_array import create_array, target_spec
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import locate, require_node

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="location of the array")
    parser.add_argument(
        "--shape", required=True, metavar="SIZES", type=sizes("shape", lowest=0), help="such as 1000,1000,400"
    )
    add_template_arguments(parser)
    parser.add_argument("--attributes", metavar="JSON", help="attributes as a JSON object")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing array")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    location = locate(arguments.path)
    format = choose_format(arguments, location)
    if arguments.dtype is None:
        raise UsageError("--dtype is needed: uint8, float32, ...")
    options = template_options(arguments)
    check_ranks(options, len(arguments.shape))
    attributes = {} if arguments.attributes is None else parse_json(arguments.attributes, "--attributes")
    if not isinstance(attributes, dict):
        raise UsageError("--attributes: expected a JSON object")
    template = ArrayTemplate(shape=arguments.shape, dtype=options.pop("dtype"), attributes=attributes)
    check_named(options, options.get("dimension_names", ()), "the array")
    given = for_array(for_format(options, format), template)
    target = target_spec(template.replaced(given), format, list(given))
    for note in target.notes:
        message(note)
    store = create_array(location, target, overwrite=arguments.overwrite)
    document = dict(require_node(location).document)
    chunks, shards = store.chunk_layout.read_chunk.shape, store.chunk_layout.write_chunk.shape
    text = f"{format} {store.dtype.name} {list(store.shape)}, chunks {list(chunks or ())}"
    text += "" if shards == chunks else f" in shards {list(shards or ())}"
    out = {"path": shown_text(arguments.path), "format": format, "metadata": document}
    show(arguments, out, f"{shown_text(arguments.path)}: {text}")
    return 0
