"""One part of a copy that is made without a scheduler: its number, its share, the name of its journal."""

from __future__ import annotations

import re
from typing import NamedTuple

from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import InvalidArgumentError

__all__ = ["MOST_PARTS", "STEM", "Part", "parse_part", "part_of_key"]

STEM = JOURNAL.removesuffix(".json")
MOST_PARTS = 1_000_000
_KEY = re.compile(rf"{re.escape(STEM)}\.([0-9]{{1,7}})-of-([0-9]{{1,7}})\.json", re.ASCII)


class Part(NamedTuple):
    """One of `n` parts, numbered from 1."""

    number: int
    n: int

    @property
    def key(self) -> str:
        """Name of its journal."""
        return f"{STEM}.{self.number}-of-{self.n}.json"

    def share(self, n_tasks: int) -> tuple[int, int]:
        """Return its tasks, as a range."""
        return n_tasks * (self.number - 1) // self.n, n_tasks * self.number // self.n


def parse_part(text: str) -> Part:
    """Return the part ``I/N``; raise InvalidArgumentError for another text."""
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text, re.ASCII) if isinstance(text, str) else None
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_PARTS:
        raise InvalidArgumentError(
            f"part: expected I/N from 1/N to N/N, N of at most {MOST_PARTS:,}, but received {text!r}"
        )
    return Part(int(match[1]), int(match[2]))


def part_of_key(key: str) -> Part | None:
    """Return the part whose journal has this name, or None."""
    match = _KEY.fullmatch(key)
    part = None if match is None else Part(int(match[1]), int(match[2]))
    return part if part is not None and 1 <= part.number <= part.n else None
