"""The versions of a database: named, found, and the next one added.

A generation is a number in JSON, and ``v3`` in URLs.  A time is ``2026-01-31T12:00:00Z``, with up to nine
digits of a second.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from chunkwise.core.base.binding import JSON, dump, expect_int
from chunkwise.core.kvstore.ocdbt.manifest import Manifest, Subtree, Version, VersionNode
from chunkwise.core.kvstore.ocdbt.places import Place
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = [
    "VersionName",
    "add_version",
    "find_generation",
    "find_time",
    "parse_version",
    "parse_version_text",
]

LoadVersions: TypeAlias = Callable[[Subtree], VersionNode]
"""Reads a node by `chunkwise.core.kvstore.ocdbt.manifest.read_version_node`, or returns a cached one."""


def find_generation(manifest: Manifest, generation: int, load: LoadVersions) -> Version | None:
    """Return the version with a generation."""
    versions, subtrees = manifest.versions, manifest.subtrees
    while not versions or generation < versions[0].generation:
        i = bisect_left([subtree.generation for subtree in subtrees], generation)
        if i == len(subtrees):
            return None
        node = load(subtrees[i])
        versions, subtrees = node.versions, node.subtrees
        if versions and generation < versions[0].generation:
            return None
    return next((version for version in versions if version.generation == generation), None)


def find_time(manifest: Manifest, time: int, load: LoadVersions) -> Version | None:
    """Return the latest version committed at or before `time`, in nanoseconds since the epoch."""
    versions, subtrees = manifest.versions, manifest.subtrees
    while True:
        before = [version for version in versions if version.time <= time]
        if before:
            return before[-1]
        below = [subtree for subtree in subtrees if subtree.time <= time]
        if not below:
            return None
        node = load(below[-1])
        versions, subtrees = node.versions, node.subtrees


def add_version(
    manifest: Manifest,
    version: Version,
    load: LoadVersions,
    write: Callable[[VersionNode], Place],
) -> Manifest:
    """Return the manifest, which may have no versions, with one more, of the next generation."""
    arity = manifest.config.version_tree_arity_log2
    versions, above = manifest.versions, {subtree.height: subtree for subtree in manifest.subtrees}
    if not versions or _run(version.generation, arity, 0) == _run(versions[-1].generation, arity, 0):
        return manifest._replace(versions=[*versions, version])

    def written(node: VersionNode) -> Subtree:
        place = write(node)
        if node.height:
            last, first = node.subtrees[-1].generation, node.subtrees[0].time
            count = sum(subtree.n_generations for subtree in node.subtrees)
        else:
            last, first, count = node.versions[-1].generation, node.versions[0].time, len(node.versions)
        return Subtree(last, place, count, first, node.height)

    # A full node moves to the level above, as one more child, or as the first child of a new node.
    moving = written(VersionNode(0, versions, []))
    while True:
        height = moving.height + 1
        there = above.get(height)
        if there is None or _run(there.generation, arity, height) != _run(moving.generation, arity, height):
            above[height] = written(VersionNode(height, [], [moving]))
            if there is None:
                break
            moving = there
        else:
            above[height] = written(VersionNode(height, [], [*load(there).subtrees, moving]))
            break
    subtrees = [above[height] for height in sorted(above, reverse=True)]
    return manifest._replace(versions=[version], subtrees=subtrees)


def _run(generation: int, arity_log2: int, height: int) -> int:
    """Return the number of the run of generations in a node of `height`."""
    return (generation - 1) >> arity_log2 * (height + 1)


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_GENERATION = re.compile(r"v(\d+)", re.ASCII)
_SECOND = 10**9
_LAST = 2**63 - 1


class VersionName(NamedTuple):
    """A generation, or a time in nanoseconds since the epoch."""

    number: int
    is_time: bool = False

    @property
    def text(self) -> str:
        """The name in URLs."""
        return self._time if self.is_time else f"v{self.number}"

    @property
    def json(self) -> JSON:
        """The name in JSON."""
        return self._time if self.is_time else self.number

    @property
    def condition(self) -> str:
        """The condition on the version, for messages."""
        return f"commit_time<={self._time}" if self.is_time else f"generation_number={self.number}"

    @property
    def _time(self) -> str:
        seconds, rest = divmod(self.number, _SECOND)
        fraction = f".{rest:09}".rstrip("0") if rest else ""
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def parse_version(value: JSON) -> VersionName:
    """Read the member ``version``."""
    if isinstance(value, str):
        return VersionName(_parse_time(value), is_time=True)
    return VersionName(expect_int(value, 1, 2**64 - 1))


def parse_version_text(text: str) -> VersionName:
    """Read a name from a URL."""
    try:
        if not text.startswith("v"):
            return VersionName(_parse_time(text), is_time=True)
        match = _GENERATION.fullmatch(text)
        number = 0 if match is None else int(match[1]) if len(match[1]) < 100 else 2**64
        if not 1 <= number < 2**64:
            raise SpecError("Invalid generation number")
        return VersionName(number)
    except SpecError as e:
        raise InvalidArgumentError(f"Invalid OCDBT version: {dump(text)}: {e.message}") from None


def _parse_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        seconds = int(datetime.fromisoformat(f"{match[1]}+00:00").timestamp())
    except ValueError:
        raise SpecError(
            f"Invalid OCDBT commit time {dump(text)}: expected such as 2026-01-31T12:00:00.5Z"
        ) from None
    time = seconds * _SECOND + int((match[2] or "0").ljust(9, "0"))
    if not 0 <= time <= _LAST:
        raise SpecError(f"Invalid OCDBT commit time {dump(text)}: it can't be 64-bit nanoseconds since 1970")
    return time
