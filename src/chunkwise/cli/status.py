"""``chunkwise status``: how far an unfinished copy is, and who is at work on it."""

from __future__ import annotations

import argparse
from typing import Any

from chunkwise.cli.command import message, print_json
from chunkwise.hierarchy.location import locate
from chunkwise.hierarchy.node import require_node
from chunkwise.tools.journal import read_journal
from chunkwise.tools.ranges import Ranges

__all__ = ["add_arguments", "run"]

_EPILOG = """\
A copy leaves a journal in its destination until it is whole; this command reads it.  Exit status 1 says that
the copy isn't whole.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="DST", help="where the copy is to be")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 0 if there is no unfinished copy."""
    location = locate(arguments.path)
    journal = read_journal(location)
    if journal is None:
        node = require_node(location)
        if arguments.json:
            print_json({"path": arguments.path, "unfinished": False, "kind": node.kind})
        else:
            print(f"{arguments.path}: {node.kind}, with no unfinished copy")
        return 0
    done = [len(Ranges(ranges)) for ranges in journal.get("done", [])]
    passes = [{"tasks": n, "done": d} for n, d in zip(journal.get("tasks", []), done, strict=False)]
    owner = journal.get("owner")
    out: dict[str, Any] = {
        "path": arguments.path,
        "unfinished": True,
        "passes": passes,
        "owner": owner,
        "source": journal.get("task", {}).get("source"),
    }
    if arguments.json:
        print_json(out)
        return 1
    for number, each in enumerate(passes):
        share = each["done"] / each["tasks"] if each["tasks"] else 1.0
        print(f"pass {number + 1} of {len(passes)}: {each['done']:,} of {each['tasks']:,} tasks, {share:.0%}")
    if owner is None:
        message("nobody is at work; the same command with --resume goes on with it")
    else:
        host, pid, _ = (*str(owner).split(":"), "?", "?")[:3]
        message(f"process {pid} on {host} was at work when the journal was written")
    return 1
