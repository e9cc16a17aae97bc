"""The documentation as it is built: strictly, without requests to others, no page wider than a phone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PHONE = 360


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
    guides = [
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


def test_phone(site):
    """No page is wider than the screen of a phone; wide tables and code scroll by themselves."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": PHONE, "height": 740})
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        too_wide = []
        for path in sorted(site.rglob("index.html")):
            page.goto(path.as_uri(), wait_until="domcontentloaded")
            if page.evaluate("document.documentElement.scrollWidth") > PHONE:
                too_wide.append(path.parent.name)
        browser.close()
    assert too_wide == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
