"""What an image is to become, and edits of the documents that say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chunkwise import Attributes
from chunkwise.errors import AbortedError, NotFoundError
from chunkwise.extension.inside import read_bounded
from chunkwise.extension.trees import Location, require_node
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Transformation

__all__ = ["Change", "Edit", "apply"]

_MOST_TRIES = 100


@dataclass(frozen=True)
class Change:
    """What an image is to become."""

    units: tuple[str, ...]  # symbols, by dimension
    factors: tuple[float, ...]  # by which sizes of voxels change, by dimension
    places: tuple[Transformation, ...]  # of the levels
    names: Mapping[int, str] = field(default_factory=dict)  # of channels, by number
    colors: Mapping[int, str] = field(default_factory=dict)

    def moves(self, image: MultiscaleImage) -> bool:
        """Return True if the first voxel's corner is to be elsewhere in units of voxels."""
        first, wanted = image._metadata.levels[0].place, self.places[0]
        pairs = zip(first.scale, first.translation, wanted.scale, wanted.translation, strict=True)
        return any(abs(t / s - at / size) > 1e-9 for s, t, size, at in pairs)

    def resizes(self) -> bool:
        """Return True if sizes of voxels change."""
        return any(factor != 1 for factor in self.factors)


class Edit(NamedTuple):
    """A change of the attributes of a node, or of a document of another kind that has a key."""

    location: Location
    key: str | None  # None for attributes
    change: Callable[[Any], Any]


def apply(edits: Sequence[Edit]) -> None:
    """Make all edits, after each was tried; those of one document see each other's results."""
    for location, key, change in edits:
        change(_bytes(location, key)[0] if key is not None else Attributes(require_node(location)).asdict())
    for location, key, change in edits:
        if key is None:
            Attributes(require_node(location)).change(change)
            continue
        for _ in range(_MOST_TRIES):
            value, generation = _bytes(location, key)
            if location.store.write(location.path + key, change(value), if_equal=generation) is not None:
                break
        else:
            raise AbortedError(f"{location.describe(key)} is changed by other writers all the time")


def _bytes(location: Location, key: str) -> tuple[bytes, bytes]:
    found = read_bounded(location.store, location.path + key)
    if found.value is None:
        raise NotFoundError(f"there is no {location.describe(key)}")
    return bytes(found.value), found.generation
