"""Run the part of the release checklist that a program can run; docs/releasing.md has the rest.

python release/check.py [--tests PATH ...] [--online]

Builds the sdist and the wheel in dist/, checks both, and tests what a user gets: the wheel that is built from
the sdist, in a new environment, with the tests of the sdist.  Stops at the first error.  Needs
requirements-release.txt.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from email.parser import BytesParser
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
ONLY_IN_SDIST = ("tests", "docs", "benchmarks", "demo", "release")


class Wrong(SystemExit):
    """Something that must be fixed before the release."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not ready: {text}")


def run(*command: object, **options: object) -> None:
    """Run a command; raise Wrong if it fails."""
    words = [str(word) for word in command]
    print("$", *words, flush=True)
    if subprocess.run(words, **options).returncode:  # type: ignore[call-overload]
        raise Wrong(" ".join(words))


def search(pattern: str, path: str) -> tuple[str, ...]:
    """Return the groups of a pattern in a file of the repository."""
    found = re.search(pattern, (ROOT / path).read_text(), flags=re.MULTILINE)
    if found is None:
        raise Wrong(f"{path} has no {pattern!r}")
    return found.groups()


def check_versions() -> str:
    """Return the version, after checking that all files agree on it, and on the date."""
    (version,) = search(r'^__version__ = "(.+)"$', "src/chunkwise/version.py")
    changelog = search(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", "CHANGELOG.md")
    cited = search(r"^version: (\S+)\ndate-released: (\S+)$", "CITATION.cff")
    (packed,) = search(r"^  version: (\S+)$", "release/conda/recipe.yaml")
    if not (changelog == cited and version == changelog[0] == packed):
        raise Wrong(f"versions and dates: {version}; CHANGELOG {changelog}; CITATION {cited}; conda {packed}")
    return version


def check_requirements() -> None:
    """Compare the requirements of the conda recipe with those of the package, whose names may differ."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "release/conda/recipe.yaml").read_text()
    run_section = recipe.split("  run:\n")[1].split("\n\n")[0]
    packed = {line.strip("- ").removeprefix("python-") for line in run_section.splitlines()}
    wanted = {
        re.sub(r"(?=>=)", " ", requirement.partition(";")[0]) for requirement in project["dependencies"]
    }
    if packed - {"python >=${{ python_min }}"} != wanted:
        raise Wrong(f"requirements of the conda recipe: {sorted(packed ^ wanted)}")


def build() -> tuple[Path, Path]:
    """Return the sdist, and the wheel that is built from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run("check-wheel-contents", wheel)
    return sdist, wheel


def relative_links(text: str) -> list[str]:
    """Return the relative links and pictures of Markdown, which don't work on another site."""
    return re.findall(r"\]\((?!https?://)[^)]*\)", text)


def check_contents(sdist: Path, wheel: Path, version: str) -> None:
    """Check what is in the wheel and the sdist, and the page at the package index."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = BytesParser().parsebytes(archive.read(f"chunkwise-{version}.dist-info/METADATA"))
    if "chunkwise/py.typed" not in names:
        raise Wrong("the wheel has no py.typed, so that type checkers ignore its annotations")
    if relative := relative_links(str(metadata.get_payload())):
        raise Wrong(f"relative links on the page at the package index: {relative}")
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    missing = {*ONLY_IN_SDIST, "src", "LICENSE", "CHANGELOG.md", "SECURITY.md", "Makefile"} - tops
    if missing:
        raise Wrong(f"the sdist lacks {sorted(missing)}")
    for path in (sdist, wheel):
        print(f"{path.name}  {path.stat().st_size / 1e6:.2f} MB")


def check_addresses() -> None:
    """Open the published addresses and check that they are this project's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, address in project["urls"].items():
        with urlopen(address, timeout=30) as answer:
            if b"chunkwise" not in answer.read():
                raise Wrong(f"{name}: {address} doesn't mention chunkwise")


def test_installed(sdist: Path, wheel: Path, tests: list[str]) -> None:
    """Install the wheel in a new environment, and run the tests of the sdist there."""
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as archive:
            archive.extractall(directory, filter="data")
        (source,) = Path(directory).iterdir()
        run(sys.executable, "-m", "venv", f"{directory}/venv")
        python = Path(directory, "venv", "Scripts" if os.name == "nt" else "bin", "python")
        install = [python, "-m", "pip", "install", "--quiet"]
        run(*install, f"{wheel}[cli]", "-r", source / "requirements-test.txt")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        where = [python, "-c", "import chunkwise; assert 'site-packages' in chunkwise.__file__"]
        run(*where, cwd=source, env=environment)
        run(python, "-m", "pytest", "-m", "not slow", *tests, cwd=source, env=environment)
        run(python, "-m", "chunkwise", "completion", "bash", env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", nargs="+", default=["tests"], help="tests to run with what is installed")
    parser.add_argument("--online", action="store_true", help="open the addresses in pyproject.toml, too")
    arguments = parser.parse_args()
    version = check_versions()
    check_requirements()
    run("cffconvert", "--validate", "--infile", ROOT / "CITATION.cff")
    sdist, wheel = build()
    check_contents(sdist, wheel, version)
    if arguments.online:
        check_addresses()
    test_installed(sdist, wheel, arguments.tests)
    run(sys.executable, ROOT / "release/man_page.py", DIST / "chunkwise.1")
    print(f"chunkwise {version}: docs/releasing.md says what is left to do by hand")


if __name__ == "__main__":
    main()
