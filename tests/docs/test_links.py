"""Links between the pages lead to pages and headings; the strict build checks generated pages too."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {
    "status.md",
    "members.md",
    "errors.md",
    "gallery.md",
    "index.md",
    "security.md",
    "contributing.md",
    "pictures/slices.png",
}
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings, made as Python-Markdown makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    cleaned = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[-\s]+", "-", title) for title in cleaned}


def test_texts_of_links_are_words() -> None:
    """Nobody reads a path as a sentence; on the site there is no such file."""
    pages = [
        *DOCS.glob("*.md"),
        *ROOT.glob("*.md"),
        *(DOCS / "make").glob("*.py"),
        *(DOCS / "gallery").glob("*.py"),
    ]
    texts = {p.name: re.findall(r"\[([^\]\n]*\.md|docs/[^\]\n]*)\]\(", p.read_text()) for p in pages}
    assert {name: found for name, found in texts.items() if found} == {}


def test_links() -> None:
    broken, n = [], 0
    for page in [*DOCS.glob("*.md"), ROOT / "README.md"]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        for target, anchor in LINK.findall(text):
            n += 1
            place = (page.parent / target) if target else page
            generated = target in GENERATED or target.startswith("reference/")
            if not (generated or place.exists()):
                broken.append(f"{page.name}: {target}")
            elif anchor and not generated and anchor[1:] not in _anchors(place):
                broken.append(f"{page.name}: {target}{anchor}")
    assert broken == []
    assert n > 40
