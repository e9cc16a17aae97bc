"""Images in TIFF files: names and units of dimensions, which arrays themselves lack; the other images."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.unit import Unit

__all__ = ["OTHERS_LEFT", "other_images", "others_left", "with_axes_of_file"]

_FILES = ("tiff_images",)
_SHOWN = 10
OTHERS_LEFT = "left out of"
"""Beginning of the note on other images."""


def with_axes_of_file(store: TensorStore, named: KvStoreSpec | None) -> TensorStore:
    """Return an array of an image file with the file's labels and units; other arrays unchanged.

    A warning tells of further images in a file that is `named` alone.
    """
    kvstore = store._array.spec().key_value_store
    if kvstore is None or kvstore.driver not in _FILES or named is None:
        return store
    is_file = named.driver not in _FILES or not named.path
    if is_file and (others := other_images(kvstore)):
        from chunkwise.core.base.caller import warn_caller  # rarely needed

        file, key = named.open_driver()
        warn_caller(f"{file.describe(key)}: {others_left(others)}")
    attributes = store.attrs
    units, names = attributes.get("dimension_units"), attributes.get("_ARRAY_DIMENSIONS")
    if units is not None and not any(store.dimension_units):
        store = store._with_units(tuple(None if unit is None else Unit(unit) for unit in units))
    return store if names is None or any(store.domain.labels) else store.label[tuple(names)]


def other_images(kvstore: KvStoreSpec | None) -> list[str]:
    """Return the names of the images after the first in a TIFF file, of which `kvstore` has a part."""
    if kvstore is None or kvstore.driver not in _FILES:
        return []
    children = kvstore.open_driver()[0].list_children("")
    return [name.rstrip("/") for name in children.prefixes if name.startswith("image")]


def others_left(names: Sequence[str], root: str = "") -> str:
    """Return the note that the images called `names`, below `root`, are not the one that is opened."""
    shown = ", ".join(f"{root}{name}" for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{OTHERS_LEFT} {len(names) + 1} images in the file, of which this is the first: {shown}"
