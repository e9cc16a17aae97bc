"""``chunkwise status``: show the progress of an unfinished copy, and who works on it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from chunkwise.cli.command import message, show
from chunkwise.copying.copy_passes import CopyStatus, copy_status
from chunkwise.copying.journal_document import owner_text
from chunkwise.copying.quantities import plural
from chunkwise.copying.resolve import resolve
from chunkwise.extension import JSON
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import locate

__all__ = ["add_arguments", "run"]

_EPILOG = """\
Until a copy is complete there is a journal in its destination, which this command reads.  Exit status 1 says
that the copy isn't complete.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="DST", help="destination of the copy")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 0 if there is no unfinished copy."""
    status = copy_status(locate(arguments.path))
    if status is None:
        found = resolve(arguments.path)
        if found.array is None:
            found.as_node()
        out = {"path": shown_text(arguments.path), "unfinished": False, "kind": found.kind}
        show(arguments, out, f"{shown_text(arguments.path)}: {found.kind}, with no unfinished copy")
        return 0
    show(arguments, _as_json(shown_text(arguments.path), status), *_lines(status))
    if arguments.json:
        return 1
    goes_on = f"the same command, `{status.command}`, with --resume goes on with the copy"
    if status.parts:
        message("parts go on when they are run again; --resume does what they have left")
    elif status.owner is None:
        message(f"no process is at work; {goes_on}")
    elif status.owner_ended:
        message(f"{owner_text(status.owner)} has ended; {goes_on}")
    else:
        message(f"{owner_text(status.owner)} was at work when the journal was written")
    return 1


def _as_json(path: str, status: CopyStatus) -> dict[str, JSON]:
    out: dict[str, JSON] = {"path": path, "unfinished": True}
    if status.arrays is not None:
        out |= {"arrays": status.arrays.tasks, "arrays_done": status.arrays.done}
    out["passes"] = [each._asdict() for each in status.passes]
    out |= {"owner": status.owner, "owner_ended": status.owner_ended, "source": status.source}
    out["command"] = status.command
    if status.parts:
        out["parts"] = [
            {
                "part": f"{each.part.number}/{each.part.n}",
                "passes": [count._asdict() for count in each.passes],
                "owner": each.owner,
                "owner_ended": each.owner_ended,
            }
            for each in status.parts
        ]
    return out


def _lines(status: CopyStatus) -> Iterator[str]:
    if status.arrays is not None:
        yield f"{status.arrays.done:,} of {plural(status.arrays.tasks, 'array')} are whole"
    for number, (tasks, done) in enumerate(status.passes, 1):
        share = done / tasks if tasks else 1.0
        yield f"pass {number} of {len(status.passes)}: {done:,} of {tasks:,} tasks, {share:.0%}"
    for part, passes, owner, ended in status.parts:
        done_by = ", ".join(f"{each.done:,}" for each in passes)
        who = "" if owner is None else f"; {owner_text(owner)} {'has ended' if ended else 'was at work'}"
        yield f"part {part.number} of {part.n}: {done_by} tasks done{who}"
