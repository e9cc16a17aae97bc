"""``chunkwise consolidate``: write, check or remove the consolidated metadata of a Zarr hierarchy."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, show
from chunkwise.copying.quantities import plural
from chunkwise.copying.resolve import resolve
from chunkwise.core.trees.consolidated_tree import check_consolidated, consolidate, remove_consolidated
from chunkwise.extension import JSON
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import Node, is_consolidated

__all__ = ["add_arguments", "run"]

_EPILOG = """\
With consolidated metadata a whole hierarchy is opened with one request.  chunkwise keeps it up to date;
after changes by other software, run this command again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="group of Zarr v2 or v3")
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--check", action="store_true", help="only say whether it is up to date; exit status 1 if not"
    )
    action.add_argument("--remove", action="store_true", help="delete it")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; with ``--check`` the exit status is 1 if the metadata is missing or out of date."""
    node = resolve(arguments.path).as_node()
    if node.kind != "group" or node.implicit or not node.rules.consolidated_key:
        what = "a directory" if node.implicit else f"{node.format} {node.kind}"
        raise UsageError(
            f"{shown_text(arguments.path)} is no Zarr group that could have consolidated metadata ({what})"
        )
    if arguments.check:
        return _check(arguments, node)
    out: dict[str, JSON] = {"path": shown_text(arguments.path), "format": node.format}
    if arguments.remove:
        out["removed"] = remove_consolidated(node.location)
        text = "deleted" if out["removed"] else "there were none"
    else:
        gathered = consolidate(node.location, found=node)
        out["nodes"], out["left_out"] = gathered.n_below, gathered.left_out
        text = f"metadata of {plural(out['nodes'], 'node')}"
        for path in gathered.left_out:
            message(f"{path} is left out: it has another format")
    show(arguments, out, f"{shown_text(arguments.path)}: {text}")
    return 0


def _check(arguments: argparse.Namespace, node: Node) -> int:
    there = is_consolidated(node)
    problems = check_consolidated(node, below=True) if there else ["there are none"]
    out = {"path": shown_text(arguments.path), "format": node.format, "exists": there, "problems": problems}
    show(
        arguments, out, *(f"{shown_text(arguments.path)}: {problem}" for problem in problems or ["all true"])
    )
    return 1 if problems else 0
