"""What was public in the last version is there, or the changelog says under *Changed* what became of it.

`python -m tests.golden.public_surface` writes what is public now; a release keeps that.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.golden.public_surface import SURFACES, surface

from chunkwise.version import __version__

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
LAST = max(SURFACES.glob("*.txt"), key=lambda path: [int(n) for n in path.stem.split(".")])


def changed_since(version: str, changelog: str) -> list[str]:
    """Return the lines of the sections *Changed* above the section of a version."""
    newer = changelog.partition(f"\n## {version} ")[0]
    sections = re.findall(r"^### Changed\n(.*?)(?=^#|\Z)", newer, flags=re.MULTILINE | re.DOTALL)
    return [line for text in sections for line in re.split(r"^\* ", text, flags=re.MULTILINE) if line.strip()]


def words_of(line: str) -> list[str]:
    """Return the names that a line of the changelog has to have, such as a function's and a parameter's."""
    name, _, rest = line.partition(" |")
    if " --json" in name and ":" in rest:
        return [name.split()[1], *re.findall(r"\w+", rest.partition(":")[0])[-1:]]
    return re.findall(r"[\w-]+", name)[-2:]


def untold(gone: set[str], changed: list[str]) -> list[str]:
    return sorted(
        line for line in gone if not any(all(word in told for word in words_of(line)) for told in changed)
    )


def test_what_was_public_is_there_or_the_changelog_says_what_became_of_it() -> None:
    known = set(LAST.read_text(encoding="utf-8").splitlines())
    changed = changed_since(LAST.stem, CHANGELOG.read_text(encoding="utf-8"))
    assert untold(known - set(surface()), changed) == []


def test_the_surface_of_this_version_is_kept() -> None:
    assert LAST.stem == __version__


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("chunkwise.copy(executor) | keyword-only, None", "`copy` takes `workers` for `executor`."),
        ("chunkwise cp --chunk | ", "`cp` has no `--chunk`."),
        ("chunkwise.Group.walk |", "`Group.walk` is gone."),
        ("chunkwise cp --json | .plan.passes: array", "`cp --json` has no `passes`."),
        ("exit status 3 | `rm`: deleted", "`rm` ends with status 3."),
    ],
)
def test_what_went_is_found_in_the_section_changed_alone(line: str, told: str) -> None:
    log = "# Changelog\n\n## Unreleased\n\n{}\n* a\n  b\n* {}\n\n## 0.1.0 (2026-11-23)\n\n### Changed\n* {}\n"
    assert untold({line}, changed_since("0.1.0", log.format("### Changed", told, "old"))) == []
    assert untold({line}, changed_since("0.1.0", log.format("### Added", told, "old"))) == [line]
    assert untold({line}, changed_since("0.1.0", log.format("### Changed", "other", told))) == [line]
