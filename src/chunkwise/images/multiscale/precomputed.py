"""neuroglancer's precomputed volumes as multiscale images: each scale is a level."""

from __future__ import annotations

from chunkwise import Context, TensorStore
from chunkwise import open as open_spec
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, parse_info
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.extension.inside import parse_json, read_bounded
from chunkwise.extension.trees import Location
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation

__all__ = ["precomputed_image"]


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
        "neuroglancer precomputed",
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
