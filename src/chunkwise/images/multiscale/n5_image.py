"""One image in N5: the arrays ``s0``, ``s1``, … of a group, whichever of them are there.

COSEM says where a level is; the others put its first voxel in the middle of those of full resolution that
it covers.  Names of axes are those in ``axes``, x first, or else x, y, z.

Sources: those of `chunkwise.images.multiscale.n5_groups`.
"""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.extension.trees import Location, read_attributes
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv_file import BdvSetup
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import axis_kind
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageMetadata,
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
from chunkwise.images.multiscale.ome_display import label_colors_of
from chunkwise.images.multiscale.ome_groups import metadata_file, open_level_of
from chunkwise.n5.label_multisets import open_label_multisets

__all__ = ["attributes_if_there", "n5_image", "n5_stores", "numbered", "subgroup"]


def numbered(group: Group, prefix: str) -> list[str]:
    """Return the members called `prefix` and a number, in order; without a gap if none are listed."""
    try:
        names = list(group)
    except UnsupportedError:
        names = []
        while group.get(f"{prefix}{len(names)}") is not None:
            names.append(f"{prefix}{len(names)}")
    found = [name for name in names if name.startswith(prefix) and _is_number(name.removeprefix(prefix))]
    return sorted(found, key=lambda name: int(name.removeprefix(prefix)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def subgroup(group: Group, name: str) -> Group:
    """Return a group in a group; raise NotFoundError if there is none."""
    found = group.get(name)
    if not isinstance(found, Group):
        raise NotFoundError(f"there is no group at {group.location.child(name).text}")
    return found


def attributes_if_there(location: Location) -> dict[str, JSON]:
    """Return the attributes of a group; none if there is no group."""
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}


def n5_stores(group: Group) -> tuple[dict[int, TensorStore], list[str]]:
    """Return the arrays s0, s1, … of a group by number, and which of them are missing or can't be read."""
    stores, problems = {}, []
    there = {int(name[1:]): name for name in numbered(group, "s")}
    for number in range(max(there, default=-1) + 1):
        at = group.location.describe(f"s{number}/attributes.json")
        try:
            store = group.get(there.get(number, f"s{number}"))
        except ChunkwiseError as e:
            problems.append(f"level s{number} can't be read: {e.message}")
            continue
        if isinstance(store, TensorStore):
            stores[number] = store
        else:
            problems.append(f"level s{number} is missing: there is no dataset at {at}")
    if not stores:
        return {}, problems
    rank = next(iter(stores.values())).rank
    for number, store in list(stores.items()):
        if store.rank != rank:
            problems.append(f"level s{number} has {store.rank} dimensions, but the first has {rank}")
            del stores[number]
    return stores, problems


def n5_image(
    group: Group,
    convention: str,
    *,
    name: str = "",
    beside: Mapping[str, JSON] | None = None,
    bdv: BdvSetup | None = None,
) -> MultiscaleImage:
    """Return the image whose levels are in `group`; `beside` has more of its attributes."""
    attributes = {**(beside or {}), **group.attrs.asdict()}
    where = metadata_file(group)
    problems: list[str] = []
    colors: list[str] = []
    if convention == "cosem" and "multiscales" in attributes:
        axes, levels = _cosem_group_levels(attributes["multiscales"], f"{where}: multiscales")
    else:
        stores, problems = n5_stores(group)
        if not stores:
            raise InvalidArgumentError(f"{where}: there is no array s0 below it")
        if convention == "cosem":
            axes, levels = _cosem_levels(group, stores)
        else:
            axes, levels = _factor_levels(group, stores, attributes, bdv)
    metadata = ImageMetadata(
        convention,
        axes,
        levels,
        name or str(attributes.get("name") or ""),
        is_labels=_is_labels(group, levels[0].path, attributes),
        label_colors=label_colors_of(attributes.get("image-label") or {}, f"{where}: image-label", colors),
        document=attributes,
        problems=(*problems, *colors, *(() if bdv is None else bdv.problems)),
    )
    return MultiscaleImage(
        metadata, lambda number: _open_level(group, metadata, number), location=group.location.text
    )


def _is_labels(group: Group, path: str, attributes: Mapping[str, JSON]) -> bool:
    """Return True if an image is one of labels: Paintera says so, or what was copied from labels."""
    data = attributes.get("painteraData")
    if isinstance(data, dict) and data.get("type") == "label":
        return True
    first = group.get(path)
    each = [attributes, first.attrs] if isinstance(first, TensorStore) else [attributes]
    return any("image-label" in own or own.get("isLabelMultiset") is True for own in each)


def _open_level(group: Group, metadata: ImageMetadata, number: int) -> TensorStore:
    def labels_of(store: TensorStore) -> TensorStore:
        is_multiset = store.attrs.get("isLabelMultiset") is True
        return (
            open_label_multisets(group.location.child(metadata.levels[number].path)) if is_multiset else store
        )

    return open_level_of(group, metadata, number, labels_of)


# -- axes and levels --------------------------------------------------------------------------------------


def _cosem_group_levels(value: object, where: str) -> tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]:
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


def _cosem_levels(
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


def _factor_levels(
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
