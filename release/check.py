"""Run the part of the release checklist that a program can run; docs/releasing.md has the rest.

python release/check.py [--tests PATH ...] [--online]

Builds the sdist and the wheel in dist/, twice, which has to give the same bytes, checks both, and tests what
a user gets: the wheel that is built from the sdist, in a new environment, with the tests of the sdist and
the examples of the README. Writes a bill of materials and a table of licences of all dependencies. Says at
the end what a person has to do. Stops at the first error. Needs requirements-release.txt.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
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
LEFT = (
    "read the section of the changelog, and the list of licences in dist/licences.md",
    "run make check, make docs, make test-lowest and make test-newest, unless that was done for this commit",
    "register the names at the package index and the host of the documentation, before the first release",
    "register .github/workflows/release.yml as the trusted publisher, before the first release",
    "tag the commit and push the tag: the workflow builds, attests and uploads; no token is needed",
    "install from the index in an empty environment, and run the examples of the README",
)
ONLY_IN_SDIST = ("tests", "docs", "benchmarks", "demo", "release")


class Wrong(SystemExit):
    """Something that must be fixed before the release."""

    def __init__(self, text: str) -> None:
        super().__init__(f"not ready: {text}")


def run(*command: object, **options: object) -> None:
    """Run a command; raise Wrong if it fails."""
    words = [str(word) for word in command]
    print("$", *words, flush=True)
    if status := subprocess.run(words, **options).returncode:  # type: ignore[call-overload]
        raise Wrong(f"{' '.join(words)} ended with {status}")


def run_tool(requirement: str, *command: object) -> None:
    """Run a command of a package in an environment of its own: the tests may need other versions."""
    from uv import find_uv_bin

    run(find_uv_bin(), "tool", "run", "--quiet", "--from", requirement, *command)


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


def check_recipe(version: str) -> None:
    """Parse the conda recipe, and render it as conda-forge does."""
    from rattler_build import Stage0Recipe, VariantConfig

    recipe = Stage0Recipe.from_file(ROOT / "release/conda/recipe.yaml")
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    (rendered,) = recipe.render(VariantConfig({"python_min": [least.removeprefix(">=")]}))
    package = rendered.recipe.package
    if (package.name, package.version) != ("chunkwise", version):
        raise Wrong(f"the conda recipe is of {package.name} {package.version}")


def check_kept(version: str) -> None:
    """Raise Wrong unless the stores and the public names that later versions are compared with are kept."""
    for kept in (f"tests/golden/stores/{version}.zip", f"tests/golden/surface/{version}.txt"):
        if not (ROOT / kept).exists():
            raise Wrong(f"{kept} is missing: docs/releasing.md says what makes it")
    run(sys.executable, "-m", "tests.golden.public_surface", "--compare", cwd=ROOT)


def build() -> tuple[Path, Path]:
    """Return the sdist, and the wheel that is built from it; raise Wrong unless a second build is equal."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as again:
        for place in (DIST, again):
            run(sys.executable, "-m", "build", "--outdir", place, ROOT)
        (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
        for path in (sdist, wheel):
            if path.read_bytes() != Path(again, path.name).read_bytes():
                raise Wrong(f"{path.name} isn't reproducible: a second build has other bytes")
            print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}, twice")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run("check-wheel-contents", wheel)
    return sdist, wheel


def list_dependencies(wheel: Path) -> None:
    """Write a bill of materials and a table of licences of all that the wheel and its extras install."""
    from uv import find_uv_bin

    with tempfile.TemporaryDirectory() as directory:
        run(sys.executable, "-m", "venv", "--without-pip", f"{directory}/venv")
        python = python_of(directory)
        run(find_uv_bin(), "pip", "install", "--quiet", "-p", python, f"{wheel}[all]")
        bill, table = DIST / "bill.cdx.json", DIST / "licences.md"
        described = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible"]
        run_tool("cyclonedx-bom>=7,<8", "cyclonedx-py", "environment", *described, "-o", bill, python)
        shown = ["--format=markdown", "--with-urls", f"--output-file={table}"]
        run_tool("pip-licenses", "pip-licenses", "--python", python, *shown)
    unknown = [line for line in table.read_text().splitlines() if "UNKNOWN" in line.split("|")[3:4]]
    print(
        f"{bill.name}, {table.name}: {len(table.read_text().splitlines()) - 2} packages", *unknown, sep="\n"
    )


def check_tried_versions() -> None:
    """Raise Wrong unless the tests have passed with the lowest and the newest versions."""
    record = ROOT / "release" / "versions.json"
    known = json.loads(record.read_text()) if record.exists() else {}
    for which in ("lowest", "newest"):
        if which not in known:
            raise Wrong(f"make test-{which} has not passed")
        print(f"{which} versions: {known[which]['date']}, CPython {known[which]['python']}")
    if known["newest"]["date"] < (datetime.date.today() - datetime.timedelta(days=30)).isoformat():
        raise Wrong("make test-newest has passed more than 30 days ago")


def python_of(directory: str) -> Path:
    """Return the interpreter of the environment in a directory."""
    return Path(directory, "venv", "Scripts" if os.name == "nt" else "bin", "python")


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
    from uv import find_uv_bin

    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(sdist) as archive:
            archive.extractall(directory, filter="data")
        (source,) = Path(directory).iterdir()
        run(sys.executable, "-m", "venv", f"{directory}/venv")
        python = python_of(directory)
        install = [find_uv_bin(), "pip", "install", "--quiet", "-p", python]
        run(*install, f"{wheel}[cli]", "-r", source / "requirements-test.txt")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        where = [python, "-c", "import chunkwise; assert 'site-packages' in chunkwise.__file__"]
        run(*where, cwd=source, env=environment)
        as_in_make_test = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not slow"]
        run(python, "-m", "pytest", *as_in_make_test, *tests, cwd=source, env=environment)
        run(python, "-m", "chunkwise", "completion", "bash", env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tests", nargs="+", default=["tests"], help="tests to run with what is installed")
    parser.add_argument("--online", action="store_true", help="open the addresses in pyproject.toml, too")
    arguments = parser.parse_args()
    version = check_versions()
    check_requirements()
    check_recipe(version)
    check_tried_versions()
    check_kept(version)
    run_tool("cffconvert>=2", "cffconvert", "--validate", "--infile", ROOT / "CITATION.cff")
    sdist, wheel = build()
    check_contents(sdist, wheel, version)
    list_dependencies(wheel)
    run(sys.executable, ROOT / "release/try_wheel.py", "--wheel", wheel, sys.executable)
    if arguments.online:
        check_addresses()
    test_installed(sdist, wheel, arguments.tests)
    run(sys.executable, ROOT / "release/man_page.py", DIST / "chunkwise.1")
    print(f"chunkwise {version}: a program finds nothing wrong. What a person has to do (docs/releasing.md):")
    print(*(f"- {line}" for line in LEFT), sep="\n")


if __name__ == "__main__":
    main()
