"""Differences of two images in different formats: compared by the meaning of their metadata.

A copy in another format has other names of levels, another order of axes, and other attributes for the same
sizes and positions of voxels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

from chunkwise.copying.copy_source import CopySource
from chunkwise.copying.difference import Comparison, Difference, array_differences, attribute_differences
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.trees import Node
from chunkwise.images.conventions.convention import other_members
from chunkwise.images.pyramid.image_sources import ImageLevel, NgffImage, images_in, read_image

__all__ = ["differences_of_images"]


def differences_of_images(left: Node, right: Node, how: Comparison) -> Iterator[Difference] | None:
    """Yield the differences of two images; None unless both groups are images of different formats."""
    groups = (left, right)
    if left.own_format == right.own_format or any(node.kind != "group" for node in groups):
        return None
    found = [images_in(node.location) for node in groups]
    if any(one is None or one.beside != [] for one in found):
        return None
    try:
        a, b = (read_image(node.location) for node in groups)
    except (ChunkwiseError, NotImplementedError):
        return None
    named = not any(node.rules.has_containers for node in groups)  # a name is not part of those
    return _differences(a, b, named, how)


def _differences(a: NgffImage, b: NgffImage, named: bool, how: Comparison) -> Iterator[Difference]:
    kept = [_axes(a, b), _axes(b, a)]
    names = [{image.axes[dim].name: dim for dim in dims} for image, dims in zip((a, b), kept, strict=True)]
    if names[0].keys() != names[1].keys():
        yield Difference("", "axes", list(names[0]), list(names[1]))
        return
    kept[1] = [names[1][name] for name in names[0]]
    if how.attributes:
        axes = [[image.axes[dim] for dim in dims] for image, dims in zip((a, b), kept, strict=True)]
        for what in ("kind", "unit"):
            left, right = ([getattr(axis, what) for axis in of] for of in axes)
            if left != right:
                yield Difference("", f"{what}s of axes", left, right)
        if named and a.name != b.name:
            yield Difference("", "name", a.name, b.name)
        if a.labels != b.labels:
            yield Difference("", "labels", a.labels, b.labels)
        yield from attribute_differences("", *other_members(a.attributes, b.attributes))
    for x, y in zip(a.levels, b.levels, strict=False):
        if how.attributes:
            yield from _places(x, y, kept)
        of_a, of_b = _arranged(x.source, kept[0]), _arranged(y.source, kept[1])
        yield from array_differences(x.path, of_a, of_b, how)
    for level in a.levels[len(b.levels) :]:
        yield Difference(level.path, "structure", "array", None)
    for level in b.levels[len(a.levels) :]:
        yield Difference(level.path, "structure", None, "array")


def _axes(image: NgffImage, other: NgffImage) -> list[int]:
    """Return the dimensions of an image without those of size 1 that the other lacks."""
    names = {axis.name for axis in other.axes}
    shapes = [level.source.store.shape for level in image.levels]
    return [
        dim
        for dim, axis in enumerate(image.axes)
        if axis.name in names or any(shape[dim] != 1 for shape in shapes)
    ]


def _arranged(source: CopySource, dims: Sequence[int]) -> CopySource:
    rank = source.store.rank
    if len(dims) < rank:
        source = source.part(tuple(slice(None) if dim in dims else 0 for dim in range(rank)))
        dims = [sorted(dims).index(dim) for dim in dims]
    found = source.arranged(dims)
    return found._replace(template=found.template.replaced({"names": (), "units": ()}))  # those of the axes


def _places(x: ImageLevel, y: ImageLevel, kept: Sequence[Sequence[int]]) -> Iterator[Difference]:
    for what in ("scale", "translation"):
        left, right = (
            [getattr(level, what)[dim] for dim in dims] for level, dims in zip((x, y), kept, strict=True)
        )
        if not all(isclose(m, n, rel_tol=1e-9, abs_tol=1e-12) for m, n in zip(left, right, strict=True)):
            yield Difference(x.path, what, left, right)
