"""``chunkwise status``: how far an unfinished copy is, and who is at work on it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from chunkwise.cli.command import message, show
from chunkwise.cli.quantities import plural
from chunkwise.hierarchy.location import locate
from chunkwise.hierarchy.node import require_node
from chunkwise.tools.journal_document import read_journal
from chunkwise.tools.parts import PartJournals, n_parts
from chunkwise.tools.ranges import Ranges
from chunkwise.tools.tree_journal import is_tree_journal

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
        out: dict[str, Any] = {"path": arguments.path, "unfinished": False, "kind": node.kind}
        show(arguments, out, f"{arguments.path}: {node.kind}, with no unfinished copy")
        return 0
    n = n_parts(journal)
    parts = {} if n is None else dict(PartJournals(location, {}, journal["tasks"], n).read())
    owner = journal["owner"]
    passes = _passes([journal, *parts.values()])
    arrays = None
    if is_tree_journal(journal):
        small, large, *blocks = passes
        arrays = {name: small[name] + large[name] for name in ("tasks", "done")}
        passes = [{name: sum(each[name] for each in (small, *blocks)) for name in ("tasks", "done")}]
    out = {
        "path": arguments.path,
        "unfinished": True,
        **({} if arrays is None else {"arrays": arrays["tasks"], "arrays_done": arrays["done"]}),
        "passes": passes,
        "owner": owner,
        "source": journal["task"].get("source"),
    }
    if parts:
        out["parts"] = [
            {"part": f"{part.number}/{part.n}", "passes": _passes([own]), "owner": own["owner"]}
            for part, own in parts.items()
        ]
    lines = []
    if arrays is not None:
        lines.append(f"{arrays['done']:,} of {plural(arrays['tasks'], 'array')} are whole")
    for number, each in enumerate(passes):
        share = each["done"] / each["tasks"] if each["tasks"] else 1.0
        text = f"{each['done']:,} of {each['tasks']:,} tasks, {share:.0%}"
        lines.append(f"pass {number + 1} of {len(passes)}: {text}")
    for part, own in parts.items():
        done = ", ".join(f"{each['done']:,}" for each in _passes([own]))
        who = "" if own["owner"] is None else f"; {_who(own['owner'])} was at work"
        lines.append(f"part {part.number} of {part.n}: {done} tasks done{who}")
    show(arguments, out, *lines)
    if arguments.json:
        return 1
    if parts:
        message("parts go on when they are run again; --resume does what they have left")
    elif owner is None:
        message("nobody is at work; the same command with --resume goes on with it")
    else:
        message(f"{_who(owner)} was at work when the journal was written")
    return 1


def _passes(journals: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Return for each pass the number of tasks, and how many of them are done by any."""
    return [
        {"tasks": n, "done": len(Ranges(range_ for journal in journals for range_ in journal["done"][at]))}
        for at, n in enumerate(journals[0]["tasks"])
    ]


def _who(owner: object) -> str:
    host, pid, _ = (*str(owner).split(":"), "?", "?")[:3]
    return f"process {pid} on {host}"
