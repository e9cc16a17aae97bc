"""Names and units of dimensions of images in TIFF files, which the arrays' own format can't store."""

from __future__ import annotations

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.specs.unit import Unit

__all__ = ["with_axes_of_file"]

_FILES = ("tiff_images",)


def with_axes_of_file(store: TensorStore) -> TensorStore:
    """Return an array of an image file with the file's labels and units; other arrays unchanged."""
    kvstore = store._array.spec().key_value_store
    if kvstore is None or kvstore.driver not in _FILES:
        return store
    attributes = store.attrs
    units, names = attributes.get("dimension_units"), attributes.get("_ARRAY_DIMENSIONS")
    if units is not None and not any(store.dimension_units):
        store = store._with_units(tuple(None if unit is None else Unit(unit) for unit in units))
    return store if names is None or any(store.domain.labels) else store.label[tuple(names)]
