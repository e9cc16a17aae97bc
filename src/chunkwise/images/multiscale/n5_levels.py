"""Axes and levels of images in N5, as the attributes of the viewers' layouts say them.

COSEM says where a level is; the others put its first voxel in the middle of those of full resolution that
it covers.  Names of axes are those in ``axes``, x first, or else x, y, z.

Sources: those of `chunkwise.images.multiscale.n5_groups`.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv_file import BdvSetup
from chunkwise.images.multiscale.image_axes import axis_kind
from chunkwise.images.multiscale.metadata import (
    Axis,
    LevelMetadata,
    Transformation,
    cells,
    expect_list,
    expect_members,
    expect_numbers,
    expect_text,
    level_factor,
)
from chunkwise.images.multiscale.n5_axes import axes_and_sizes, axis_names, unit_of
from chunkwise.images.multiscale.ome_groups import metadata_file

__all__ = ["cosem_group_levels", "cosem_levels", "factor_levels"]


def cosem_group_levels(value: object, where: str) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
    """Return axes and levels of the first image in ``multiscales`` of a group."""
    image = expect_members(expect_list(value, where, "images")[0], f"{where}[0]")
    axes: tuple[Axis, ...] = ()
    levels = []
    for i, entry in enumerate(expect_list(image.get("datasets"), f"{where}[0]: datasets", "levels")):
        at = f"{where}[0]: datasets[{i}]"
        dataset = expect_members(entry, at)
        own, place = _cosem_transform(dataset.get("transform"), f"{at}: transform")
        axes = axes or own
        if own != axes:
            raise InvalidArgumentError(f"{at}: transform: axes and units must be those of the first level")
        path = expect_text(dataset.get("path"), f"{at}: path", "the path of an array")
        levels.append(LevelMetadata(path.strip("/"), place, f"{at}: path"))
    return axes, tuple(levels)


def cosem_levels(
    group: Group, stores: Mapping[int, TensorStore]
) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
    """Return axes and levels of an image whose arrays have a ``transform`` each."""
    places: list[LevelMetadata] = []
    axes: tuple[Axis, ...] = ()
    for number, store in stores.items():
        at = f"{_file(group, number)}: transform"
        own, place = _cosem_transform(store.attrs.get("transform"), at)
        axes = axes or own
        places.append(LevelMetadata(f"s{number}", place, at))
    return axes, tuple(places)


def factor_levels(
    group: Group, stores: Mapping[int, TensorStore], attributes: Mapping[str, JSON], bdv: BdvSetup | None
) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
    """Return axes and levels of an image with one voxel size, and factors for its levels."""
    number, first = next(iter(stores.items()))
    where, rank = metadata_file(group), first.rank
    names = axis_names(first, attributes, where)
    if bdv is None:
        axes, size = axes_and_sizes(names, [attributes, first.attrs.asdict()], where)
        start = expect_numbers(attributes.get("offset", [0.0] * rank), rank, f"{where}: offset")
    else:
        ones = (1.0,) * (rank - 3)
        size, start = (*bdv.size, *ones)[:rank], (*bdv.start, *(0.0 for _ in ones))[:rank]
        axes = tuple(Axis(n, axis_kind(n), bdv.unit if axis_kind(n) == "space" else "") for n in names)
    listed = next((n for n in ("scales", "downsamplingFactors") if isinstance(attributes.get(n), list)), "")
    levels = []
    for number, store in stores.items():
        at = _file(group, number)
        factors = store.attrs.get("downsamplingFactors")
        if factors is None and listed and number < len(attributes[listed]):
            factors, at = attributes[listed][number], f"{where}: {listed}[{number}]"
        if factors is None:
            factors = [level_factor(n, m) for n, m in zip(first.shape, store.shape, strict=True)]
        elif isinstance(factors, list) and len(factors) == 3 < rank:
            factors = [*factors, *[1] * (rank - 3)]
        cell = cells(expect_numbers(factors, rank, f"{at}: downsamplingFactors", positive=True))
        place = cell.then(Transformation(size, start))
        affine = store.attrs.get("affineTransform")
        if affine is not None:
            place = place.then(_diagonal(affine, rank, f"{at}: affineTransform"))
        levels.append(LevelMetadata(f"s{number}", place, at))
    return axes, tuple(levels)


def _cosem_transform(value: object, where: str) -> tuple[tuple[Axis, ...], Transformation]:
    """Return axes and transformation, x first, of one in C order."""
    transform = expect_members(value, where)
    names = expect_list(transform.get("axes"), f"{where}: axes", "names")
    rank = len(names)
    units = expect_list(transform.get("units", [""] * rank), f"{where}: units", "units")
    if len(units) != rank:
        raise InvalidArgumentError(f"{where}: units: expected {rank} units, but received {dump(units)}")
    axes = [_axis(name, unit, f"{where}: axes") for name, unit in zip(names, units, strict=True)]
    scale = expect_numbers(transform.get("scale"), rank, f"{where}: scale", positive=True)
    at = expect_numbers(transform.get("translate", [0.0] * rank), rank, f"{where}: translate")
    return tuple(axes[::-1]), Transformation(scale[::-1], at[::-1])


def _axis(name: object, unit: object, where: str) -> Axis:
    text = expect_text(name, where, "the name of an axis")
    return Axis(text, axis_kind(text), unit_of(unit))


def _diagonal(value: object, rank: int, where: str) -> Transformation:
    """Return an affine transformation that neither turns nor shears; raise UnsupportedError for others."""
    rows = expect_list(value, where, "rows")
    if all(not isinstance(row, list) for row in rows):
        rows = [rows[at : at + 4] for at in range(0, len(rows), 4)]
    matrix = [expect_numbers(row, len(rows) + 1, f"{where}[{i}]") for i, row in enumerate(rows)]
    if any(n for i, row in enumerate(matrix) for j, n in enumerate(row[:-1]) if i != j):
        raise UnsupportedError(f"{where}: expected scale and translation, not {dump(value)[:200]}")
    scale = [row[i] for i, row in enumerate(matrix)][:rank]
    if any(size <= 0 for size in scale):
        raise UnsupportedError(f"{where}: expected positive scales, not {dump(value)[:200]}")
    at = [row[-1] for row in matrix][:rank]
    n_more = rank - len(scale)
    return Transformation((*scale, *(1.0,) * n_more), (*at, *(0.0,) * n_more))


def _file(group: Group, number: int) -> str:
    location = group.location
    return location.describe(f"s{number}/attributes.json")
