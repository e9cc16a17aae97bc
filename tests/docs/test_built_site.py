"""The documentation as it is built: strictly, without requests to others, legible on phones and desks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.slow  # building the site takes as long as a hundred other tests
ROOT = Path(__file__).resolve().parents[2]
PHONE, DESK = 360, 1300


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; broken links and anchors are errors."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place


def test_pages(site):
    """Pages ask nobody else for anything, show no markup, and each guide has a picture."""
    pages = {path.parent.relative_to(site).as_posix(): path.read_text() for path in site.rglob("index.html")}
    assert len(pages) > 120
    for name, text in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]* src="([^"]*)"', text)
        loaded += re.findall(
            r'<link[^>]* rel="(?:stylesheet|icon|preload|preconnect)"[^>]* href="([^"]*)"', text
        )
        assert [url for url in loaded if url.startswith(("http:", "https:", "//"))] == [], name
        assert not re.search(
            r":(class|func|meth|mod|attr|exc|obj|data):<code>|&lt;!-- (drawing|table)", text
        ), name
    assert "<table data-rows>" in pages["remote"] and 'data-label="store"' in pages["remote"]
    assert all("Source of this page" in text for text in pages.values())
    guides = [
        "tutorial",
        "convert",
        "cli",
        "hierarchies",
        "virtual",
        "pyramids",
        "multiscale",
        "serve",
        "remote",
        "bridges",
    ]
    guides += [
        "many-machines",
        "xarray",
        "consistency",
        "errors",
        "plugins",
        "n5",
        "nwb",
        "zarr",
        "architecture",
    ]
    for name in guides:
        article = pages[name].split("<article", 1)[1].split("</article>", 1)[0]
        assert '<svg class="drawing"' in article or "<img" in article, name


LOOK = """() => {
  const pick = (name) => [...document.querySelectorAll(name)];
  const cut = (e) => e.scrollWidth > e.clientWidth + 1;
  const scale = (s) => s.getBoundingClientRect().width / s.viewBox.baseVal.width;
  const sizes = pick("svg.drawing text").map((t) => t.getAttribute("font-size") * scale(t.ownerSVGElement));
  const places = pick("article pre > code, article .md-typeset__scrollwrap, .drawing-place").filter(cut);
  return {
    width: document.documentElement.scrollWidth,
    cut: places.map((e) => e.textContent.slice(0, 60)),
    unmarked: places.filter((e) => !getComputedStyle(e).backgroundImage.includes("gradient")).length,
    smallest: Math.min(99, ...sizes),
    broken: pick("article code.name").filter((e) => e.getClientRects().length > 1).map((e) => e.textContent),
  };
}"""
"""What one sees of a page: its width, what is cut and whether a shadow says so, small words, broken names."""


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield opened
        opened.close()


def _pages(site, step):
    """Return the guides, and one of `step` pages of the reference, which are made alike."""
    guides = set(site.glob("*/index.html"))
    return sorted(guides) + sorted(set(site.rglob("index.html")) - guides)[::step]


def test_phone(site, browser):
    """No page is wider than the screen; what scrolls shows a shadow, words are legible, names are whole."""
    page = browser.new_page(viewport={"width": PHONE, "height": 740})
    asked, faults = [], []
    page.on("request", lambda request: asked.append(request.url))
    for path in _pages(site, 4):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        seen = page.evaluate(LOOK)
        if seen["width"] > PHONE or seen["unmarked"] or seen["smallest"] < 8.9 or seen["broken"]:
            faults.append((path.parent.name, seen))
    page.close()
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_desk(site, browser):
    """Code, tables and drawings fit."""
    page = browser.new_page(viewport={"width": DESK, "height": 740})
    faults = []
    for path in _pages(site, 12):
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        seen = page.evaluate(LOOK)
        if seen["cut"] or seen["broken"]:
            faults.append((path.parent.name, seen))
    page.close()
    assert faults == []


def test_names_beside_each_page_of_the_reference(site):
    """Each page of a name has links to all others beside it."""
    names = {path.parent.name for path in (site / "reference").glob("*/index.html")}
    assert len(names) > 90
    for name in ("open", "TensorStore", "codec.protocol"):
        beside = re.findall(
            r'href="\.\./([\w.]+)/" class="md-nav__link"',
            (site / "reference" / name / "index.html").read_text(),
        )
        assert names - set(beside) <= {name}
