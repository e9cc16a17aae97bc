"""Axes and levels of images in N5, as the attributes of the viewers' layouts say them.

COSEM says where a level is; the others put its first voxel in the middle of those of full resolution that
it covers.  Names of axes are those in ``axes``, x first, or else x, y, z.

Sources: those of `chunkwise.multiscale.n5_groups`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkwise.api.tensorstore import TensorStore
from chunkwise.binding import JSON, dump
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.groups.group import Group
from chunkwise.multiscale.bdv_file import BdvSetup
from chunkwise.multiscale.image_axes import axis_kind
from chunkwise.multiscale.metadata import (
    Axis,
    LevelMetadata,
    Transformation,
    expect_list,
    expect_members,
    expect_numbers,
    expect_text,
)
from chunkwise.multiscale.ome_groups import metadata_file
from chunkwise.multiscale.ome_zarr import symbol_of

__all__ = ["cosem_group_levels", "cosem_levels", "factor_levels"]

_AXES = ("x", "y", "z", "c", "t")


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
    group: Group, stores: Sequence[TensorStore]
) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
    """Return axes and levels of an image whose arrays have a ``transform`` each."""
    places: list[LevelMetadata] = []
    axes: tuple[Axis, ...] = ()
    for number, store in enumerate(stores):
        at = f"{_file(group, number)}: transform"
        own, place = _cosem_transform(store.attrs.get("transform"), at)
        axes = axes or own
        places.append(LevelMetadata(f"s{number}", place, at))
    return axes, tuple(places)


def factor_levels(
    group: Group, stores: Sequence[TensorStore], attributes: Mapping[str, JSON], bdv: BdvSetup | None
) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
    """Return axes and levels of an image with one voxel size, and factors for its levels."""
    first, where = stores[0], metadata_file(group)
    rank = first.rank
    free = [name for name in _AXES if name not in first.domain.labels]
    names = [label or (free.pop(0) if free else f"d{dim}") for dim, label in enumerate(first.domain.labels)]
    if bdv is None:
        size, unit = _resolution({**first.attrs.asdict(), **attributes}, rank, where)
        start = expect_numbers(attributes.get("offset", [0.0] * rank), rank, f"{where}: offset")
    else:
        ones = (1.0,) * (rank - 3)
        size, unit, start = (*bdv.size, *ones)[:rank], bdv.unit, (*bdv.start, *(0.0 for _ in ones))[:rank]
    axes = tuple(Axis(name, axis_kind(name), unit if axis_kind(name) == "space" else "") for name in names)
    listed = next((n for n in ("scales", "downsamplingFactors") if isinstance(attributes.get(n), list)), "")
    levels = []
    for number, store in enumerate(stores):
        at = _file(group, number)
        factors = store.attrs.get("downsamplingFactors")
        if factors is None and listed and number < len(attributes[listed]):
            factors, at = attributes[listed][number], f"{where}: {listed}[{number}]"
        if factors is None:
            factors = [_factor(n, m) for n, m in zip(first.shape, store.shape, strict=True)]
        steps = expect_numbers(factors, rank, f"{at}: downsamplingFactors", positive=True)
        cell = Transformation(steps, tuple(0.5 * (f - 1) for f in steps))
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
    return Axis(text, axis_kind(text), symbol_of(unit) if isinstance(unit, str) and unit != "pixel" else "")


def _factor(n: int, m: int) -> int:
    """Return the factor by which `n` elements became `m`, a power of two if one fits."""
    powers = [2**k for k in range(n.bit_length() + 1) if n // 2**k <= m <= -(-n // 2**k)]
    return powers[0] if powers else max(1, round(n / max(1, m)))


def _resolution(attributes: Mapping[str, JSON], rank: int, where: str) -> tuple[tuple[float, ...], str]:
    """Return size of a voxel of full resolution, and its unit."""
    found = attributes.get("pixelResolution")
    unit = attributes.get("unit", "")
    if isinstance(found, dict):
        unit = found.get("unit", "")
        found = found.get("dimensions")
    if found is None:
        found = attributes.get("resolution", [1.0] * rank)
    units = attributes.get("units")
    if not unit and isinstance(units, list) and units:
        unit = units[0]
    if isinstance(found, list) and len(found) == min(rank, 3) < rank:
        found = [*found, *[1.0] * (rank - len(found))]
    size = expect_numbers(found, rank, f"{where}: pixelResolution", positive=True)
    return size, symbol_of(unit) if isinstance(unit, str) and unit not in ("pixel", "px") else ""


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
