"""Random programs by both libraries: equal results, types and classes of errors, or a known difference.

`pytest tests/parity/test_random_programs.py -m slow` runs 4,000 programs of each family with seed 0;
the environment variables RANDOM_PROGRAMS and RANDOM_SEED choose others.  One program is run again by
`FAMILIES[name](Random(f"{name} {seed} {number}"))`.  Dimension expressions, domains and transforms have their
own differential test in tests/index_space.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.parity.programs.families import FAMILIES
from tests.parity.programs.library import Library

SEED = os.environ.get("RANDOM_SEED", "0")
COUNT = int(os.environ.get("RANDOM_PROGRAMS", "4000"))


class Difference(NamedTuple):
    """The first step with another outcome: what TensorStore gives, and what chunkwise gives."""

    steps: list[str]
    theirs: Any
    ours: Any

    @property
    def step(self) -> str:
        return self.steps[-1]

    @property
    def text(self) -> str:
        """TensorStore's message, empty without an error."""
        return self.theirs.get("text", "") if isinstance(self.theirs, dict) else ""


def _is_low_float_mean(d: Difference) -> bool:
    names = ("float8", "int4", "int2")
    return any(f"ts.{name}" in d.steps[0] for name in names) and "downsample(" in "".join(d.steps)


def _no_message(d: Difference) -> bool:
    return not d.text and isinstance(d.ours, dict) and "error" in d.ours


_EMPTY = (
    "an index out of bounds beside an empty range, which TensorStore refuses when it reads",
    lambda d: "constant output index map" in d.text and isinstance(d.ours, list) and 0 in d.ours[2],
)
KNOWN: dict[str, list[tuple[str, Callable[[Difference], bool]]]] = {
    "layouts": [],
    "schemas": [
        (
            "a type that N5 lacks: chunkwise says so when the layout is asked for",
            lambda d: (
                d.step == "spec.chunk_layout"
                and _no_message(d)
                and "is not one of the supported" in d.ours["text"]
            ),
        ),
        (
            "a fill value that was given before the type has that type in chunkwise",
            lambda d: "fill_value" in str(d.ours) and any("fill_value" in s for s in d.steps),
        ),
        (
            "a grid origin that the format can't have: TensorStore says so when the layout is asked for",
            lambda d: d.step == "spec.chunk_layout" and "grid_origin" in d.text,
        ),
    ],
    "stacks": [
        (
            "two dimensions of one label: TensorStore makes a domain that it refuses elsewhere",
            lambda d: isinstance(d.ours, dict) and "not unique" in d.ours["text"],
        ),
        _EMPTY,
    ],
    "casts": [_EMPTY],
    "downsampled": [
        _EMPTY,
        ("means, minima and maxima of 8-bit floats are 0 or NaN in TensorStore", _is_low_float_mean),
        (
            "the spec of a memory array without elements, or with repeated ones",
            lambda d: (
                d.step == "d.spec()"
                and ("Cannot inverse transform" in d.text or "'array': []" in str(d.ours))
            ),
        ),
    ],
    "stored": [
        (
            "a handle older than a resize: TensorStore's spec has the old bounds and the new shape",
            lambda d: d.step.startswith(("a.spec(", "a.schema")) and any("resize(" in s for s in d.steps),
        ),
        (
            "a handle older than a resize: TensorStore's statistics are of the old bounds",
            lambda d: "storage_statistics" in d.step and any("resize(" in s for s in d.steps),
        ),
    ],
    "transactions": [
        (
            "an atomic transaction over files: TensorStore may read the metadata again, as a second key",
            lambda d: "as single atomic transaction" in d.text,
        ),
    ],
    "keys": [
        ("TensorStore runs out of memory for an empty range", lambda d: "bad_alloc" in d.text),
        (
            "TensorStore's ZIP archives list, and keep, keys that a range leaves out or deletes",
            lambda d: "|zip:" in d.steps[0],
        ),
    ],
    "specs": [
        (
            "a fill value that was given before the type has that type in chunkwise",
            lambda d: any("fill_value" in s for s in d.steps),
        ),
        (
            "labels for an empty view with strides",
            lambda d: "labels=" in d.step and _no_message(d) and "non-unit-stride" in d.ours["text"],
        ),
        (
            "`open` after `delete_existing` takes that back in TensorStore",
            lambda d: any("delete_existing" in s for s in d.steps) and "'delete_existing'" in str(d.ours),
        ),
    ],
    "codecs": [],
    "computed": [],
    "batches": [],
    "pipelines": [],
    "images": [],
    "precomputed": [],
    "documents": [
        (
            "a number that JSON has no word for is read back as null, which is what is stored",
            lambda d: "read()" in d.step and any("nan" in s for s in d.steps),
        ),
    ],
}


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


def unknown_differences(both: tuple[Library, Library], name: str, count: int) -> list[str]:
    """Run programs of a family; return a text for each difference that isn't known."""
    found = []
    for number in range(count):
        difference = compare(both, FAMILIES[name](Random(f"{name} {SEED} {number}")))
        if difference is not None and not any(is_one(difference) for _, is_one in KNOWN[name]):
            steps = "\n  ".join(difference.steps)
            found.append(
                f"{name} {SEED} {number}:\n  {steps}\n  {difference.theirs}\n  {difference.ours}"[-1500:]
            )
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FAMILIES)
def test_random_programs(libraries, name):
    found = unknown_differences(libraries, name, COUNT)
    assert not found, f"{len(found)} of {COUNT} programs with seed {SEED}, such as\n" + "\n".join(found[:5])


@pytest.mark.parametrize("name", FAMILIES)
def test_some_random_programs(libraries, name):
    found = unknown_differences(libraries, name, 12)
    assert not found, "\n".join(found)
