"""Write the man page, made from the parser of the command line.

python release/man_page.py chunkwise.1

Needs argparse-manpage.
"""

from __future__ import annotations

import sys
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
    return str(page)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(man_page())
