"""Pages generated from the code when the documentation is built, and inserts for the others."""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from mkdocs.structure.files import File, Files

import chunkwise
from chunkwise.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from make import drawings, gallery, members, reference, support, words  # noqa: E402 - found by what stands above

_OF_REPOSITORY = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages and the files at the root of the repository that they show."""


def on_config(config: Any) -> Any:
    """List the names of the reference beside its pages."""
    for part in config.nav:
        if "Reference" in part:
            part["Reference"] += [
                {title: [f"reference/{name}.md" for name in names]}
                for title, names in reference.groups().items()
            ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {"status.md": support.page(), "members.md": members.page(), "errors.md": reference.error_page()}
    pages |= reference.pages()
    pages |= {"gallery.md": gallery.page(), "citing.md": citing()}
    for name, source in _OF_REPOSITORY.items():
        pages[name] = (ROOT / source).read_text().replace("](docs/", "](")
        for page, file in _OF_REPOSITORY.items():
            pages[name] = pages[name].replace(f"]({file})", f"]({page})")
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for name, content in ({"pictures/slices.png": picture()} | gallery.pictures()).items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Mark where inline code may break."""
    return words.with_breaks(html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Insert drawings and tables, and append the help of every command to their page."""
    markdown = re.sub(r"<!-- table: (\w+) -->", lambda found: support.TABLES[found[1]](), markdown)
    markdown = re.sub(r"<!-- drawing: (\w+) -->", lambda found: drawings.draw(found[1]), markdown)
    return markdown + cli() if page.file.src_uri == "cli.md" else markdown


def citing() -> str:
    """Return the page on citing, made from CITATION.cff."""
    facts = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    year = facts["date-released"].year
    return (
        f"# Citing\n\n{facts['message']}\n\n`CITATION.cff` in the source has the same for programs.\n\n"
        f"```bibtex\n@software{{chunkwise,\n  author = {{{{{facts['authors'][0]['name']}}}}},\n"
        f"  title = {{{{chunkwise}}}},\n  version = {{{facts['version']}}},\n  year = {{{year}}},\n"
        f"  url = {{{facts['url']}}},\n}}\n```\n"
    )


def cli() -> str:
    """Return the help of every command."""
    parts = ["\n"]
    for name in COMMANDS:
        text = StringIO()
        with redirect_stdout(text):
            main([name, "--help"])
        parts.append(f"## chunkwise {name}\n\n```\n{text.getvalue()}\n```\n")
    return "\n".join(parts)


def picture() -> bytes:
    """Return the picture on the page of the command line, made by the command in its caption."""
    z, y, x = np.ogrid[:24, :96, :160]
    values = (500 + 400 * np.sin(np.hypot(y - 40, x - 70) / (4 + z / 6))).astype("u2")
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
        chunkwise.create_array("volume.zarr", values, dimension_names=["z", "y", "x"])
        main(["slice", "volume.zarr", "--orthogonal", "--png", "slices.png"])
        return Path("slices.png").read_bytes()
