"""Pages generated from the code when the documentation is built, and inserts for the others."""

from __future__ import annotations

import os
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

from make import drawings, gallery, members, reference, support, tables, words  # noqa: E402 - found by what stands above

_OF_REPOSITORY = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "changelog.md": "CHANGELOG.md",
}
"""Pages and the files at the root of the repository that they show."""


_MADE_BY = {
    "citing.md": "CITATION.cff",
    "errors.md": "src/chunkwise/errors.py",
    "gallery.md": "docs/make/gallery.py",
    "members.md": "docs/make/members.py",
    "status.md": "docs/make/support.py",
}
"""Other pages that are generated, and what from."""


def on_config(config: Any) -> Any:
    """List the names of the reference beside its pages; tell the version, and where the source is."""
    config.site_name = f"chunkwise {chunkwise.__version__}"
    config.copyright = f"chunkwise {chunkwise.__version__}"
    # The host of the documentation names the repository that it builds from.
    repository = os.environ.get("READTHEDOCS_GIT_CLONE_URL", "").removesuffix(".git")
    if repository.startswith("https://"):
        config.repo_url, config.repo_name = repository, "Source"
        config.edit_uri = f"edit/{os.environ.get('READTHEDOCS_GIT_IDENTIFIER', 'main')}/docs/"
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


def on_page_content(html: str, page: Any, config: Any, **_: Any) -> str:
    """Mark where inline code may break, label the cells of tables, and say at the end what made the page."""
    source = source_of(page.file.src_uri)
    if page.edit_url:
        page.edit_url = config.repo_url + "/" + config.edit_uri.removesuffix("docs/") + source
    end = f'<p class="source">Source of this page: <code>{source}</code></p>'
    return tables.with_labels(words.with_breaks(html)) + end


def source_of(page: str) -> str:
    """Return the file in the repository that a page is made from."""
    name = page.removeprefix("reference/").removesuffix(".md")
    if page in _OF_REPOSITORY:
        return _OF_REPOSITORY[page]
    if page.startswith("reference/") and name != "index":
        return reference.source(name)
    if (ROOT / "docs" / page).exists():
        return f"docs/{page}"
    return _MADE_BY.get(page, "docs/make/reference.py")


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
