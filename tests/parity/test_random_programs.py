"""Random programs by both libraries: equal results, types and classes of errors, or a known difference.

`pytest tests/parity/test_random_programs.py -m slow` runs 4,000 programs of each family, seeded by the date;
the environment variables RANDOM_PROGRAMS and RANDOM_SEED choose others.  One program is run again by
`FAMILIES[name](Random(f"{name} {seed} {number}"))`.  Dimension expressions, domains and transforms have their
own differential test in tests/index_space.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

import pytest
from tests.parity.programs.families import FAMILIES
from tests.parity.programs.known import KNOWN, Difference
from tests.parity.programs.library import Library

SEED = os.environ.get("RANDOM_SEED", "0")
MANY_SEED = os.environ.get("RANDOM_SEED", date.today().isoformat())
COUNT = int(os.environ.get("RANDOM_PROGRAMS", "4000"))


@pytest.fixture(scope="module")
def libraries() -> Iterator[tuple[Library, Library]]:
    both = Library("tensorstore"), Library("chunkwise")
    yield both
    for library in both:
        library.close()


def _told(outcomes: list[Any]) -> list[Any]:
    return [x["error"] if isinstance(x, dict) and "error" in x else x for x in outcomes]


def compare(both: tuple[Library, Library], steps: list[str]) -> Difference | None:
    """Return the first difference; None if there is none, or TensorStore did not survive the program."""
    theirs, ours = (library.run(steps) for library in both)
    if isinstance(theirs, str):
        return None
    if isinstance(ours, str):
        return Difference(steps, theirs, ours)
    for i, (a, b) in enumerate(zip(_told(theirs), _told(ours), strict=False)):
        if a != b:
            return Difference(steps[: i + 1], theirs[i], ours[i])
    return None


def _unknown(both: tuple[Library, Library], name: str, steps: list[str]) -> Difference | None:
    """Return a difference that isn't known, and that is there when the program runs again."""
    for _ in range(2):
        difference = compare(both, steps)
        if difference is None or any(is_one(difference) for _, is_one in KNOWN[name]):
            return None
    return difference


def unknown_differences(both: tuple[Library, Library], name: str, count: int, seed: str = SEED) -> list[str]:
    """Run programs of a family; return a text for each difference that isn't known."""
    found = []
    for number in range(count):
        difference = _unknown(both, name, FAMILIES[name](Random(f"{name} {seed} {number}")))
        if difference is not None:
            steps = "\n  ".join(difference.steps)
            found.append(
                f"{name} {seed} {number}:\n  {steps}\n  {difference.theirs}\n  {difference.ours}"[-1500:]
            )
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FAMILIES)
def test_random_programs(libraries, name):
    found = unknown_differences(libraries, name, COUNT, MANY_SEED)
    assert not found, f"{len(found)} of {COUNT} programs with seed {MANY_SEED}, such as\n" + "\n".join(
        found[:5]
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_some_random_programs(libraries, name):
    found = unknown_differences(libraries, name, 12)
    assert not found, "\n".join(found)
