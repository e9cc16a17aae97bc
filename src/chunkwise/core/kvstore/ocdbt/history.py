"""The versions of a database: finding one, and adding the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from chunkwise.core.kvstore.ocdbt.manifest import Manifest
from chunkwise.core.kvstore.ocdbt.places import Place
from chunkwise.core.kvstore.ocdbt.versions import Subtree, Version, VersionNode

__all__ = ["LoadVersions", "add_version", "find_generation", "find_time"]

LoadVersions: TypeAlias = Callable[[Subtree], VersionNode]
"""Reads a node by `chunkwise.core.kvstore.ocdbt.versions.read_version_node`, or returns a cached one."""


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
