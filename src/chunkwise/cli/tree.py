"""``chunkwise tree``: groups and arrays of a hierarchy, with what they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from chunkwise.api.location import locate
from chunkwise.api.node import Node, find_node
from chunkwise.api.summary import shape_text, summarize
from chunkwise.api.walk import WalkedNode, walk
from chunkwise.cli.command import print_json
from chunkwise.cli.quantities import format_shape
from chunkwise.errors import NotFoundError

__all__ = ["add_arguments", "draw_tree", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="root of the hierarchy, or a part of it")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    root = find_node(locate(arguments.path))
    if root is None:
        raise NotFoundError(f"there is no array or group at {arguments.path}, and nothing below it")
    walked = list(walk(root))
    if arguments.json:
        print_json([_as_json(name, node) for name, node in walked])
    else:
        for line in draw_tree(arguments.path.rstrip("/") or arguments.path, walked):
            print(line)
    return 1 if root.error else 0


def draw_tree(title: str, walked: Sequence[WalkedNode]) -> Iterator[str]:
    """Yield the lines of the tree, what the nodes are in a column of its own.

    Parameters
    ----------
    title : str
        What the root is called.
    walked : sequence of WalkedNode
        Each group before its children.
    """
    left = [title]
    for number, (name, _) in enumerate(walked[1:], 1):
        parts = name.split("/")
        rails = ""
        for depth in range(1, len(parts)):
            rails += "│   " if _has_sibling(walked, number, parts[:depth]) else "    "
        branch = "├── " if _has_sibling(walked, number, parts) else "└── "
        left.append(f"{rails}{branch}{parts[-1]}")
    width = max(map(len, left))
    for text, (_, node) in zip(left, walked, strict=True):
        yield f"{text:<{width}}  {_describe(node)}".rstrip()


def _has_sibling(walked: Sequence[WalkedNode], number: int, parts: list[str]) -> bool:
    """Whether a node after `number` is in the same group as the one that `parts` leads to."""
    parent = parts[:-1]
    for name, _ in walked[number + 1 :]:
        other = name.split("/")
        if other[: len(parent)] != parent:
            return False
        if other[: len(parts)] != parts:
            return True
    return False


def _describe(node: Node) -> str:
    if node.error:
        return f"{node.format or 'directory'} {node.kind}: {node.error}"
    if node.kind == "group":
        return f"{node.format or 'directory'} group{' (implicit)' if node.implicit else ''}"
    summary = summarize(node)
    words = [summary.dtype or "?", shape_text(summary.shape)]
    words.append("chunks " + ("?" if summary.chunks is None else format_shape(summary.chunks)))
    if summary.shards is not None:
        words.append("shards " + format_shape(summary.shards))
    words.append(", ".join(summary.codecs) or "uncompressed")
    return f"{node.format} array  " + "  ".join(words)


def _as_json(name: str, node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {"name": name, "kind": node.kind, "format": node.format}
    if node.kind == "array" and not node.error:
        out.update(summarize(node)._asdict())
    if node.kind == "group":
        out["implicit"] = node.implicit
    if node.error:
        out["error"] = node.error
    return out
