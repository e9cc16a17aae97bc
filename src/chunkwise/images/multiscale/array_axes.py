"""Image properties of one array: from the image of which it is a level, or from itself.

A view has the axes of its array: it may be cut, strided and transposed.  An array that is put together of
several, such as a stack, has the axes on which these agree, and is labels if one of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise import OutputIndexMethod, TensorStore
from chunkwise.copying.array_template import NAMES
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import array_sources, is_of
from chunkwise.extension.trees import ChunkedArray, Location, is_declared, locate, tree_format
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.convention import LABEL, image_label_of, n_images
from chunkwise.images.conventions.n5_group import axes_of_array
from chunkwise.images.conventions.ome_groups import Options, image_of
from chunkwise.images.multiscale.find_images import find_images
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import (
    AXIS_KINDS,
    PIXEL_CHANNELS,
    AxisKind,
    Channel,
    axis_kind,
    axis_names,
    color_axis,
    image_axes,
    symbol_of,
)

__all__ = [
    "N_ABOVE",
    "ArrayAxis",
    "ArrayImage",
    "Known",
    "channel_names",
    "coordinate_axes",
    "image_of_array",
    "images_at",
    "level_at",
    "of_level",
    "own_axes",
]


# -- axes of an array by itself -----------------------------------------------------------------------

# Axes of an array that is not a level of an image: its labels, attributes, and coordinates beside it.

_MOST_COORDINATES = 1_000_000
_REGULAR = 1e-3  # of a step, how far coordinates may be from regular ones


@dataclass(frozen=True)
class ArrayAxis:
    """A dimension; unknown properties are empty or None."""

    name: str = ""
    kind: AxisKind | None = None
    size: float | None = None  # of a voxel, in `unit`
    unit: str = ""
    start: float | None = None  # position of index 0


def own_axes(whole: TensorStore, location: Location, format: str) -> tuple[list[ArrayAxis], tuple[str, ...]]:
    """Return the axes by an array's attributes and the coordinates beside it, and problems."""
    attributes: Mapping[str, JSON] = whole.attrs
    named = attributes.get(NAMES)
    names = list(named) if isinstance(named, list) and len(named) == whole.rank else whole.domain.labels
    notes: list[str] = []
    try:
        axes = [ArrayAxis(name) for name in map(str, names)]
        axes = _with_sizes(whole, axes, attributes, format, location)
    except InvalidArgumentError as e:
        notes.append(f"{e.message}; sizes of voxels in its attributes are not used")
    axes = [_with_coordinates(axis, n, location, notes) for axis, n in zip(axes, whole.shape, strict=True)]
    return axes, tuple(notes)


def _with_sizes(
    whole: TensorStore,
    axes: list[ArrayAxis],
    attributes: Mapping[str, JSON],
    format: str,
    location: Location,
) -> list[ArrayAxis]:
    """Return axes with the sizes that the attributes of an array give them."""
    rules = tree_format(format)
    file = location.describe(rules.array_key if rules.attributes_are_members else "attributes")
    labelled = whole.label[tuple(axis.name for axis in axes)] if axes else whole
    names = [axis.name for axis in image_axes(labelled)]
    found = axes_of_array(names, attributes, file, reversed_axes=rules.reversed_axes)
    if found is None:
        return axes
    return [
        ArrayAxis(name or axis.name, None, size, unit, start)
        for axis, (name, size, unit, start) in zip(axes, found, strict=True)
    ]


def _with_coordinates(axis: ArrayAxis, n: int, location: Location, notes: list[str]) -> ArrayAxis:
    """Return an axis with size and start that the coordinates beside an array give it, if there are any."""
    above = location.parent
    if not axis.name or above is None or axis.name == location.name:
        return axis
    try:
        group = open_group(above)
        store = group.get(axis.name)
        if not isinstance(store, TensorStore) or store.shape != (n,) or n > _MOST_COORDINATES:
            return axis
        return _with_steps(axis, store.read().result(), store.attrs, notes)
    except ChunkwiseError:
        return axis


def coordinate_axes(data: Any) -> tuple[list[ArrayAxis], tuple[str, ...]]:
    """Return the axes by the coordinates of an array of xarray, and problems."""
    notes: list[str] = []
    axes = []
    for name in data.dims:
        axis = ArrayAxis(str(name))
        if name in data.coords:
            axis = _with_steps(axis, data.coords[name].values, data.coords[name].attrs, notes)
        axes.append(axis)
    return axes, tuple(notes)


def channel_names(data: Any) -> tuple[str, ...]:
    """Return the names of channels that the coordinates of an array of xarray give; none if they don't."""
    dims = [name for name in data.dims if axis_kind(str(name)) == "channel" and name in data.coords]
    values = [value for name in dims for value in data.coords[name].values.tolist()]
    return tuple(values) if len(dims) == 1 and all(isinstance(value, str) for value in values) else ()


def _with_steps(
    axis: ArrayAxis, values: npt.NDArray[Any], attributes: Mapping[str, Any], notes: list[str]
) -> ArrayAxis:
    """Return an axis with the size and start of its coordinates, which have to rise in regular steps."""
    n = len(values)
    if axis_kind(axis.name) != "channel" and values.dtype.kind not in "iuf":
        notes.append(f"coordinates of {axis.name} are left out: they are no numbers")
    if n < 2 or values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
        return axis
    values = values.astype(np.float64)
    unit = attributes.get("units") or attributes.get("unit") or ""
    step = (values[-1] - values[0]) / (n - 1)
    if step <= 0 or np.abs(values - (values[0] + step * np.arange(n))).max() > _REGULAR * step:
        notes.append(f"coordinates of {axis.name} are left out: they don't rise in regular steps")
        return axis
    text = unit if isinstance(unit, str) and " since " not in unit else ""
    return replace(
        axis,
        size=float(f"{step:.12g}"),
        unit=symbol_of(text),
        start=float(values[0]),
        kind=axis_kind(axis.name),
    )


# -- arrays as levels ---------------------------------------------------------------------------------

_NEARLY = 1e-6  # of a voxel
N_ABOVE = 3
"""Number of groups above an array in which it is looked for as a level."""

Known: TypeAlias = dict[str, list[MultiscaleImage | ChunkwiseError]]
"""The images of groups, and errors of those that can't be read, by the text of the group's location."""


@dataclass(frozen=True)
class ArrayImage:
    """Image properties of an array, as far as known."""

    axes: tuple[ArrayAxis, ...]  # by dimension of the view
    image: MultiscaleImage | None = None  # that it is a level of
    level: int = 0
    channels: tuple[int, ...] | None = None  # which of those of the image the view has; None for all
    shown: tuple[Channel, ...] = ()  # how those of the view are shown
    is_labels: bool | None = None  # None if nothing says so
    image_label: Mapping[str, JSON] = field(default_factory=dict)  # attributes of labels, such as colours
    notes: tuple[str, ...] = ()  # on metadata that could not be understood
    error: ChunkwiseError | None = None  # of the image that it may be a level of

    def names(self, store: TensorStore) -> list[str]:
        """Return the names of the axes of the view; empty for those that nothing names."""
        return [axis.name or label for axis, label in zip(self.axes, store.domain.labels, strict=True)]

    def assumed(self, store: TensorStore, names: Sequence[str], how: str = "") -> tuple[str, ...]:
        """Return a note on the names that are taken for axes without one; `how` says otherwise."""
        if all(self.names(store)):
            return ()
        return (f"the dimensions of the source are taken as {','.join(names)}{how}",)


def image_of_array(store: TensorStore, image: object = None) -> ArrayImage:
    """Return the image properties of an array or view, beside its labels and dimension units.

    `image` is that whose full resolution it is a view of, or the array of another library that it is, if
    that is known.
    """
    if isinstance(image, MultiscaleImage):
        return _of_image(store, image, 0)
    if is_of(image, "xarray"):
        held, notes = coordinate_axes(image)
        is_labels = True if LABEL in getattr(image, "attrs", ()) else None
        shown = tuple(Channel(label=name) for name in channel_names(image))
        return ArrayImage(_of_view(store, held), shown=shown, is_labels=is_labels, notes=notes)
    try:
        found = list(array_sources(store._array, store._transform, holes=True))
    except ChunkwiseError as e:  # of a layer
        nothing = ArrayImage((ArrayAxis(),) * store.rank)
        return replace(nothing, error=e, notes=(f"a layer can't be opened: {e.message}",))
    sources = {id(source[0]): source for source in found}
    if list(sources) == [id(store._array)]:
        return _of_stored(store)
    known: Known = {}
    layers = [of_level(TensorStore._make(*source), known) for source in sources.values()]
    labels = {one.is_labels for one in layers}
    shared = layers[0].image_label if layers else {}
    axes = _common_axes(store, [one.axes for one in layers])
    shown, lost = _common_channels(store, axes, layers, known)
    return ArrayImage(
        axes,
        shown=shown,
        is_labels=True if True in labels else False if labels == {False} else None,
        image_label=shared if all(one.image_label == shared for one in layers) else {},
        notes=(*dict.fromkeys(note for one in layers for note in one.notes), *lost),
        error=next((one.error for one in layers if one.error is not None), None),
    )


def _of_stored(store: TensorStore) -> ArrayImage:
    found = of_level(store, {})
    node = store._find_node().node if isinstance(store._array, ChunkedArray) else None
    if found.image is not None or node is None:
        return found
    axes, notes = own_axes(_whole(store), node.location, str(node.format))
    return replace(found, axes=_of_view(store, axes), notes=(*notes, *found.notes))


def _whole(view: TensorStore) -> TensorStore:
    """Return the array of a view."""
    return TensorStore._make(view._array, type(view._transform).identity(view._array.domain))


def of_level(view: TensorStore, known: Known) -> ArrayImage:
    """Return the properties of a stored array as a level of an image; nothing if it isn't one."""
    nothing = ArrayImage((ArrayAxis(),) * view.rank)
    try:
        found = _level_of_array(view, known)
        if found is not None:
            return _of_image(view, *found)
    except ChunkwiseError as e:
        nothing = replace(nothing, error=e, notes=(f"the image can't be read: {e.message}",))
    attributes = view.attrs if isinstance(view._array, ChunkedArray) else {}
    if LABEL in attributes:  # a copy of a level of labels
        return replace(nothing, is_labels=True, image_label=image_label_of(attributes))
    return replace(nothing, shown=_pixel_colors(view))


def _pixel_colors(view: TensorStore) -> tuple[Channel, ...]:
    """Return the channels of a view of pixels in colour; none if the array's elements are no colours."""
    whole = _whole(view)
    dim = color_axis(whole)
    if dim is None:
        return ()
    chosen = _channels(view, [ArrayAxis(kind="channel" if n == dim else "space") for n in range(whole.rank)])
    first = whole.domain.inclusive_min[dim]
    numbers = range(whole.shape[dim]) if chosen is None else [index - first for index in chosen]
    return tuple(PIXEL_CHANNELS[n] for n in numbers)


def _of_image(view: TensorStore, image: MultiscaleImage, number: int) -> ArrayImage:
    """Return the image properties of a view of one of an image's levels."""
    at_zero = zip(image.translations[number], view._array.domain.origin, image.scales[number], strict=True)
    axes = [
        ArrayAxis(
            axis.name,
            axis.type if axis.type in AXIS_KINDS else "other",  # type: ignore[arg-type]
            size,
            axis.unit,
            start,
        )
        for axis, size, start in zip(
            image.axes, image.scales[number], [at - first * n for at, first, n in at_zero], strict=True
        )
    ]
    chosen = _channels(view, axes)
    shown = image.channels
    if chosen is not None:
        shown = tuple(shown[n] for n in chosen if n < len(shown))
    label = image_label_of(image.metadata) if image.is_labels else {}
    return ArrayImage(_of_view(view, axes), image, number, chosen, shown, image.is_labels, label)


def _level_of_array(view: TensorStore, known: Known) -> tuple[MultiscaleImage, int] | None:
    if not isinstance(view._array, ChunkedArray):
        return None
    node = view._find_node().node
    if node is not None:
        return level_at(node.location, known)
    spec = _whole(view).spec().to_json()
    if spec["driver"] != "neuroglancer_precomputed" or view.kvstore is None:
        return None
    from chunkwise.images.conventions.precomputed import precomputed_image  # with the driver, which few need

    volume = precomputed_image(locate(view.kvstore))
    return None if volume is None else (volume, spec["scale_index"])


def _common_axes(store: TensorStore, found: Sequence[Sequence[ArrayAxis]]) -> tuple[ArrayAxis, ...]:
    """Return the axes on which all arrays of a view agree; names and units of its own come first."""
    out = []
    unknown = (ArrayAxis(),) * store.rank
    found = [axes if len(axes) == store.rank else unknown for axes in found]  # a stack of stacks has fewer
    for dim, (label, unit) in enumerate(zip(store.domain.labels, store.dimension_units, strict=True)):
        each = [axes[dim] for axes in found]
        axis = each[0] if each else ArrayAxis()
        if any(replace(one, start=None) != replace(axis, start=None) for one in each):
            axis = ArrayAxis()
        if any(
            one.start is None or abs(one.start - (axis.start or 0.0)) > _NEARLY * (axis.size or 1.0)
            for one in each
        ):
            axis = replace(axis, start=None)
        if label and axis.name != label:
            axis = ArrayAxis(label)
        own = None if unit is None else (unit.multiplier, symbol_of(unit.base_unit))
        if own is not None and own != (axis.size, axis.unit):
            axis = replace(axis, size=None, unit="", start=None)
        out.append(axis)
    return tuple(out)


def _common_channels(
    store: TensorStore, axes: Sequence[ArrayAxis], layers: Sequence[ArrayImage], known: Known
) -> tuple[tuple[Channel, ...], tuple[str, ...]]:
    """Return how the channels of a view are shown, if its layers agree, and else a note on the loss."""
    if not any(one.shown for one in layers):
        return (), ()
    named = axis_names(store, [axis.name for axis in axes])
    kinds = [axis.kind or axis_kind(name) for axis, name in zip(axes, named, strict=True)]
    dim = kinds.index("channel") if "channel" in kinds else None
    if dim is None:
        each = [{one.shown for one in layers}]
    else:
        each = []
        for number in range(store.domain.inclusive_min[dim], store.domain.exclusive_max[dim]):
            view = store[(slice(None),) * dim + (number,)]
            parts = array_sources(view._array, view._transform, holes=True)
            each.append({of_level(TensorStore._make(*part), known).shown for part in parts})
    if all(len(shown) <= 1 and all(len(one) <= 1 for one in shown) for shown in each):
        return tuple((*shown.pop(), Channel())[0] if shown else Channel() for shown in each), ()
    names = ", ".join(dict.fromkeys(channel.label or "-" for one in layers for channel in one.shown))
    return (), (f"names and colours of channels are left out: layers differ in them ({names})",)


def level_at(location: Location, known: Known | None = None) -> tuple[MultiscaleImage, int] | None:
    """Return the image of which the array at a location is a level, and the number of the level, or None.

    `known` keeps the images of groups for further arrays.
    """
    known = {} if known is None else known
    for above in islice(location.parents, N_ABOVE):
        path = location.path[len(above.path) :].strip("/")
        key = f"{above.store.describe(above.path)}"
        if key not in known:
            known[key] = list(images_at(above))
        failed: ChunkwiseError | None = None
        for image in known[key]:
            if isinstance(image, ChunkwiseError):
                failed = failed or image
            elif path in image.paths:
                return image, image.paths.index(path)
        if failed is not None:
            raise failed
    return None


def images_at(location: Location) -> Iterator[MultiscaleImage | ChunkwiseError]:
    """Yield the images that the group at a location is, and why others can't be read."""
    if not is_declared(location):
        return
    try:
        group = open_group(location)
    except ChunkwiseError:
        return
    for open_image in _images_of(group):
        try:
            image = open_image()
        except ChunkwiseError as e:
            yield e
            continue
        if isinstance(image, MultiscaleImage):
            yield image


def _images_of(group: Group) -> list[Callable[[], object]]:
    """Return functions that open the images that a group is, one for each."""
    options = Options(drafts=True)
    n = n_images(group.attrs) if tree_format(group.format).ngff_version else 1
    if n < 2:
        return [partial(find_images, group, options)]
    return [partial(image_of, group, options, number=number) for number in range(n)]


def _of_view(store: TensorStore, axes: Sequence[ArrayAxis]) -> tuple[ArrayAxis, ...]:
    """Return the axes of a view, given those of its array."""
    out = [ArrayAxis()] * store.rank
    for axis, output in zip(axes, store._transform.output, strict=True):
        dim, stride = output.input_dimension, output.stride
        if output.method != OutputIndexMethod.single_input_dimension or dim is None or stride is None:
            continue
        size, start = axis.size, axis.start
        if size is not None and start is not None:
            start += output.offset * size
            size *= abs(stride)
        if stride < 0:
            start = None
        out[dim] = replace(axis, size=size, start=start)
    return tuple(out)


def _channels(store: TensorStore, axes: Sequence[ArrayAxis]) -> tuple[int, ...] | None:
    """Return which channels of its array a view has; None if all, or if that is unknown."""
    for axis, output in zip(axes, store._transform.output, strict=True):
        if axis.kind != "channel":
            continue
        if output.method == OutputIndexMethod.constant:
            return (output.offset,)
        dim, stride = output.input_dimension, output.stride
        if output.method == OutputIndexMethod.single_input_dimension and dim is not None:
            low, high = store.domain.inclusive_min[dim], store.domain.exclusive_max[dim]
            return tuple(output.offset + (stride or 1) * i for i in range(low, high))
    return None
