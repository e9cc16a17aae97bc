"""Pages that are made from the code when the documentation is built: the tour, and what is supported."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from chunkwise import catalogue
from chunkwise.cli.main import COMMANDS, main
from chunkwise.dtypes.data_type import dtypes

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from make import drawings, gallery, members, reference  # noqa: E402 - found by what stands above

_OF_REPOSITORY = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages and the files at the root of the repository that they show."""


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {"status.md": status(), "members.md": members.page(), "errors.md": reference.error_page()}
    pages |= reference.pages()
    pages["gallery.md"] = gallery.page()
    for name, source in _OF_REPOSITORY.items():
        pages[name] = (ROOT / source).read_text().replace("](docs/", "](")
        for page, file in _OF_REPOSITORY.items():
            pages[name] = pages[name].replace(f"]({file})", f"]({page})")
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for name, picture in gallery.pictures().items():
        files.append(File.generated(config, name, content=picture))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put drawings in their places, and the help of every command behind the page on the command line."""
    markdown = re.sub(r"<!-- drawing: (\w+) -->", lambda found: drawings.draw(found[1]), markdown)
    return markdown + cli() if page.file.src_uri == "cli.md" else markdown


def status() -> str:
    """Return the tables of the catalogue."""
    lines = ["# What is supported", "", "These tables are the catalogue of the code.", "", "## Codecs", ""]
    lines += ["| codec | Zarr v3 | Zarr v2 | N5 |", "|---|---|---|---|"]
    for name, entry in sorted(catalogue.CODECS.items()):
        columns = (", ".join(f"`{n}`" for n in entry.names.get(f, ())) for f in ("zarr3", "zarr2", "n5"))
        lines.append(f"| `{name}` | " + " | ".join(columns) + " |")
    for title, table in (
        ("Chunk grids", catalogue.GRIDS),
        ("Chunk key encodings", catalogue.KEY_ENCODINGS),
        ("Array drivers", catalogue.DRIVERS),
        ("Key-value stores", catalogue.KVSTORES),
        ("Context resources", catalogue.CONTEXT_RESOURCES),
    ):
        lines += ["", f"## {title}", "", ", ".join(f"`{name}`" for name in table)]
    lines += ["", "## Data types", "", ", ".join(f"`{name}`" for name in dtypes)]
    own = "`S<n>`, `U<n>`, `V<n>`, `datetime64[unit]`, `timedelta64[unit]`"
    lines += ["", f"and NumPy's {own} and structured types."]
    return "\n".join(lines) + "\n"


def cli() -> str:
    """Return the help of every command."""
    parts = ["\n"]
    for name in COMMANDS:
        text = StringIO()
        with redirect_stdout(text):
            main([name, "--help"])
        parts.append(f"## chunkwise {name}\n\n```\n{text.getvalue()}\n```\n")
    return "\n".join(parts)
