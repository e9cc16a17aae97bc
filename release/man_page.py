"""Write the man page, made from the parser of the command line.

python release/man_page.py chunkwise.1

Needs argparse-manpage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from argparse_manpage.manpage import Manpage

from chunkwise.cli.main import make_parser
from chunkwise.version import __version__


def man_page() -> str:
    """Return the man page as roff text."""
    parser: Any = make_parser()
    parser.man_short_description = "large N-dimensional arrays in Zarr v1, v2, v3 and N5"
    page = Manpage(parser)
    page.date = datetime.now(tz=UTC).strftime("%Y-%m-%d")
    page.source = f"chunkwise {__version__}"
    page.manual = "chunkwise"
    page.add_section("examples and notes", "=", "\n".join(_notes(parser, "chunkwise")))
    return str(page)


def _notes(parser: argparse.ArgumentParser, prog: str) -> Iterator[str]:
    """Yield the text below the help of each command, which argparse-manpage omits."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                if command.epilog:
                    yield f".SS {prog} {name}\n.nf"
                    yield from (f"\\&{_escaped(line)}" for line in command.epilog.strip("\n").splitlines())
                    yield ".fi"
                yield from _notes(command, f"{prog} {name}")


def _escaped(line: str) -> str:
    return line.replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(man_page())
