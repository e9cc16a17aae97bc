"""neuroglancer's precomputed volumes as multiscale images, read and edited: each scale is a level."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chunkwise import Context, TensorStore, newaxis
from chunkwise import open as open_spec
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, parse_info
from chunkwise.errors import InvalidArgumentError, UnsupportedError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.inside import parse_json, read_bounded
from chunkwise.extension.trees import Location
from chunkwise.images.conventions.convention import PRECOMPUTED_NAME, Change, Convention, Edit
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation

__all__ = ["PRECOMPUTED", "as_volume", "precomputed_image"]


class _Precomputed(Convention):
    name = PRECOMPUTED_NAME
    is_placed_in_voxels = True
    reserved = frozenset()

    def others(self, document: Mapping[str, JSON]) -> dict[str, JSON]:
        return {}

    def beside(self, image: MultiscaleImage) -> list[str]:
        names = [name for name in image.metadata if name not in _OF_VOLUME]
        return [f"{name} of info is left out: it is no part of the image" for name in names]

    def edits(self, image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
        """Return the edit of ``info``, whose sizes are in nanometres."""
        if any(unit != "nm" for unit in change.units[:3]):
            raise UnsupportedError("units: sizes in a precomputed volume are in nm")
        if change.moves(image):
            raise UnsupportedError("translation: chunks of a precomputed volume are named by their positions")
        return [Edit(location, INFO_KEY, lambda value: _with_sizes(value, change))]


PRECOMPUTED = _Precomputed()

_OF_VOLUME = ("@type", "type", "data_type", "num_channels", "scales")


def _with_sizes(value: bytes, change: Change) -> bytes:
    document: dict[str, JSON] = parse_json(value)
    for entry, place in zip(document["scales"], change.places, strict=True):
        entry["resolution"] = [int(n) if n.is_integer() else n for n in place.scale[:3]]
    return json.dumps(document).encode()


def precomputed_image(location: Location, context: Context | None = None) -> MultiscaleImage | None:
    """Return the volume at `location`; None if there is no ``info`` of one."""
    value = read_bounded(location.store, location.path + INFO_KEY).value
    if value is None:
        return None
    where = location.describe(INFO_KEY)
    try:
        document = parse_json(bytes(value))
    except ValueError:
        return None
    if not isinstance(document, dict) or "scales" not in document:
        return None
    try:
        info = parse_info(document)
    except InvalidArgumentError as e:
        raise prefix(e, where) from None
    if not info.scales:
        raise InvalidArgumentError(f"{where}: the volume has no scales")
    axes = (*(Axis(name, "space", "nm") for name in "xyz"), Axis("channel", "channel"))
    levels = []
    for number, scale in enumerate(info.scales):
        # Offsets are of corners, translations of centres, beginning with that of a voxel of the first scale.
        first = info.scales[0].resolution
        start = [
            at * size + (size - one) / 2
            for at, size, one in zip(scale.voxel_offset, scale.resolution, first, strict=True)
        ]
        place = Transformation((*scale.resolution, 1.0), (*start, 0.0))
        levels.append(LevelMetadata(scale.key, place, f"{where}: scales[{number}]"))
    metadata = ImageMetadata(
        PRECOMPUTED.name,
        axes,
        tuple(levels),
        location.name,
        is_labels=info.type == "segmentation",
        document=document,
    )

    def open_level(number: int) -> TensorStore:
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": location.kvstore(),
            "open": True,
            "scale_index": number,
        }
        return open_spec(spec, context=context).result()

    return MultiscaleImage(metadata, open_level, location=location.text)


def as_volume(store: TensorStore, dims: Sequence[int | None]) -> TensorStore:
    """Return a view of x, y, z and channel, which are `dims` of an array, from 0 on."""
    store = store.label[("",) * store.rank] if store.rank else store
    kept = [dim for dim in dims if dim is not None]
    index = tuple(slice(None) if dim in kept else store.origin[dim] for dim in range(store.rank))
    view = store[index] if index else store
    left = sorted(kept)
    view = view.transpose([left.index(dim) for dim in kept])
    view = view[tuple(newaxis if dim is None else slice(None) for dim in dims)]
    return view.translate_to[(0,) * 4]
