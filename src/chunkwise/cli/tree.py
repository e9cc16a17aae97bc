"""``chunkwise tree``: draw the groups and arrays of a hierarchy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chunkwise import TensorStore
from chunkwise.cli.command import UsageError, show
from chunkwise.copying.quantities import format_nbytes, plural
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.copying.summary import (
    Occupancy,
    array_nbytes,
    describe_node,
    occupancy,
    shape_text,
    stored_array,
    summarize,
)
from chunkwise.core.trees.link import parse_links, without_links
from chunkwise.errors import ChunkwiseError, UnavailableError
from chunkwise.extension import JSON
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import Location, Node, Tree, locate, node_attributes, walk
from chunkwise.groups.drawing import branch, rails
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.open import open_multiscale

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser, depth: int | None = None) -> None:
    """Declare the command's arguments; `depth` is the default."""
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        default=".",
        help="a hierarchy or a part of it; by default the current directory",
    )
    parser.add_argument("-a", "--attributes", action="store_true", help="show attributes too")
    parser.add_argument(
        "-s", "--sizes", action="store_true", help="count stored chunks and their bytes, by listing them"
    )
    parser.add_argument(
        "--no-consolidated",
        action="store_true",
        help="read the nodes themselves, not consolidated metadata",
    )
    parser.add_argument(
        "-d", "--depth", type=int, metavar="N", default=depth, help="show N levels below PATH"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.depth is not None and arguments.depth < 0:
        raise UsageError("--depth: expected 0 or more levels")
    nodes = None if arguments.no_consolidated else _consolidated_nodes(locate(arguments.path))
    if nodes is None:
        found = resolve(arguments.path)
        if found.array is not None:
            _show_array(arguments, found, found.array)
            return 0
        root = found.as_node(damaged=True)
        nodes = [_ShownNode(name, node) for name, node in walk(root, depth=arguments.depth)]
    walked = [
        shown
        for shown in nodes
        if arguments.depth is None or not shown.name or shown.name.count("/") < arguments.depth
    ]
    lines = [_line(shown, arguments) for shown in walked]
    title = shown_text(arguments.path).rstrip("/") or arguments.path
    show(arguments, [line.json for line in lines], *_draw(title, walked, lines))
    return 1 if nodes[0].node.error else 0


def _show_array(arguments: argparse.Namespace, found: ResolvedPlace, array: TensorStore) -> None:
    """Draw an array outside of any tree, or the scales of a volume."""
    title = shown_text(arguments.path).rstrip("/") or arguments.path
    kind = str(array.spec().to_json()["driver"])
    if not found.is_volume:
        show(arguments, [_array_json("", kind, array)], f"{title}  {_array_text(kind, array)}")
        return
    image = open_multiscale(found)
    assert isinstance(image, MultiscaleImage)
    scales = dict(zip(image.paths, image.levels, strict=True))
    lines = [f"{title}  precomputed volume"]
    for name, scale in scales.items():
        end = "└── " if name == image.paths[-1] else "├── "
        lines.append(f"{end}{name}  {_array_text(kind, scale)}")
    out: list[dict[str, JSON]] = [{"name": "", "kind": "volume", "format": kind}]
    show(arguments, out + [_array_json(*at) for at in ((n, kind, s) for n, s in scales.items())], *lines)


def _array_text(kind: str, array: TensorStore) -> str:
    return f"{kind} array  {array.dtype.name}  {shape_text(array.shape)}  {format_nbytes(array.nbytes)}"


def _array_json(name: str, kind: str, array: TensorStore) -> dict[str, JSON]:
    out = {"name": name, "kind": "array", "format": kind, "dtype": array.dtype.name}
    return {**out, "shape": list(array.shape), "bytes": array.nbytes}


class _ShownNode(NamedTuple):
    """A node of the tree."""

    name: str
    node: Node
    known: Mapping[str, JSON] | None = None  # attributes, if nothing has to be read for them

    def attributes(self) -> Mapping[str, JSON]:
        """Return the attributes; none if there are none that can be read."""
        if self.known is not None:
            return self.known
        if self.node.error or not self.node.key:
            return {}
        try:
            return node_attributes(self.node)
        except ChunkwiseError:
            return {}  # `attrs` and `verify` say that they can't be read


def _consolidated_nodes(location: Location) -> list[_ShownNode] | None:
    """Return a group and all below it, each before its children; None without consolidated metadata."""
    try:
        tree = open_group(location, "r", consolidated=True)._tree
        return list(_from_snapshot(tree, ()))
    except UnavailableError:
        raise
    except ChunkwiseError:
        return None  # there are none, or they are damaged: the nodes themselves are read


def _from_snapshot(tree: Tree, names: tuple[str, ...]) -> Iterator[_ShownNode]:
    node = tree.find(names)
    if node is None:
        return
    yield _ShownNode("/".join(names), node, tree.attributes(names, node).asdict())
    if node.kind == "group":
        for child in tree.children(names, node):
            yield from _from_snapshot(tree, (*names, child))


class _Line(NamedTuple):
    """A node as text, the lines below it, and the node as JSON."""

    text: str
    below: list[str]
    json: dict[str, JSON]


def _line(shown: _ShownNode, arguments: argparse.Namespace) -> _Line:
    node = shown.node
    text, out, below = describe_node(node), _as_json(shown.name, node), []
    attributes = shown.attributes() if arguments.attributes or node.kind == "group" else {}
    for link, target in parse_links(attributes).items() if node.kind == "group" else ():
        below.append(f"{link} -> {target}")
        out.setdefault("links", {})[link] = {"path": target.path, "source": target.source}
    if node.kind == "array" and not node.error:
        counted = _sizes(node) if arguments.sizes else None
        if counted is not None:
            text += f"  {_size_text(counted)}"
            out["stored"] = {"chunks": counted.n_stored, "possible_chunks": counted.n_possible}
            out["stored"]["bytes"] = counted.stored_nbytes
        elif arguments.sizes:
            text += "  ?"
        out["bytes"] = nbytes = array_nbytes(node) if counted is None else counted.nbytes
        if nbytes is not None and not arguments.sizes:
            text += f"  {format_nbytes(nbytes)}"
    if arguments.attributes:
        own = without_links(attributes)
        below += [f"@{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in own.items()]
        out["attributes"] = dict(attributes)
    return _Line(text, below, out)


def _sizes(node: Node) -> Occupancy | None:
    try:
        return occupancy(node, stored_array(node))
    except (ChunkwiseError, ValueError, NotImplementedError):
        return None


def _size_text(counted: Occupancy) -> str:
    text = f"{format_nbytes(counted.nbytes)}, {counted.n_stored} of {plural(counted.n_possible, 'chunk')}"
    return f"{text} stored in {format_nbytes(counted.stored_nbytes)}"


def _draw(title: str, walked: Sequence[_ShownNode], lines: Sequence[_Line]) -> Iterator[str]:
    """Yield the lines of a tree of nodes, each group before its children, with `lines` beside them."""
    ends = _ends([shown.name for shown in walked])
    left = [branch(end) + shown.name.rpartition("/")[2] for shown, end in zip(walked, ends, strict=True)]
    left[0] = title
    width = max(map(len, left))
    for number, (text, line) in enumerate(zip(left, lines, strict=True)):
        yield f"{text:<{width}}  {line.text}".rstrip()
        has_children = number + 1 < len(walked) and len(ends[number + 1]) > len(ends[number])
        for below in line.below:
            yield f"{rails(ends[number])}{'│ ' if has_children else '  '}{below}"


def _ends(names: Sequence[str]) -> list[tuple[bool, ...]]:
    """Return for each path, and each depth of it, True if no sibling follows; groups come before members."""
    is_last: dict[str, bool] = {}
    followed: set[str] = set()  # groups with a member that has been met
    for name in reversed(names):
        while name and name not in is_last:
            group = name.rpartition("/")[0]
            is_last[name] = group not in followed
            followed.add(group)
            name = group
    steps = ([at for at, char in enumerate(f"{name}/") if char == "/"] if name else [] for name in names)
    return [tuple(is_last[name[:at]] for at in ats) for name, ats in zip(names, steps, strict=True)]


def _as_json(name: str, node: Node) -> dict[str, JSON]:
    out: dict[str, JSON] = {"name": name, "kind": node.kind, "format": node.format}
    if node.kind == "array" and not node.error:
        out.update(summarize(node)._asdict())
    if node.kind == "group":
        out["implicit"] = node.implicit
    if node.error:
        out["error"] = node.error
    return out
