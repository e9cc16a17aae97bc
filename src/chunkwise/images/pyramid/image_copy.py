"""``copy_of_image``: which copy `copy_tree` and ``chunkwise cp -r`` make of an image.

In another format an image becomes an image again if that needs no choice: of OME-Zarr in Zarr.  In N5 each
viewer has a layout of its own, and what lies beside the levels has no place, so then a layout is to be given;
without one the copy is a plain tree, whose report says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.copying.array_options import array_options
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.executors import Workers
from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.copying.tree_copy import TreeCopy, tree_copy_to
from chunkwise.errors import InvalidArgumentError, OptionError, UnsupportedError
from chunkwise.extension.trees import FormatName, Location, tree_format
from chunkwise.images.multiscale.open import Multiscale
from chunkwise.images.pyramid.image_plan import ImagePlan, NgffImagePlan
from chunkwise.images.pyramid.image_sources import images_after, images_in
from chunkwise.images.pyramid.n5_image_plan import N5ImagePlan

__all__ = ["copy_of_image"]

_OF_ARRAYS = ("fill_value", "dimension_names", "dimension_units")
_VIEWERS = 'layout="n5-viewer", "paintera" or "bdv" (--layout) makes an image for that viewer'


def copy_of_image(
    found: ResolvedPlace,
    destination: Location,
    format: FormatName,
    layout: str | None,
    options: Mapping[str, Any],
    how: CopyOptions,
    workers: Workers,
) -> TreeCopy | str:
    """Return the copy of an image; or, if it is copied as a plain tree, the text on what that loses."""
    node, source, is_n5 = found.node, found.location, tree_format(format).has_containers
    assert source is not None
    described: Multiscale | None = None if found.images is None else found.images()
    is_image = described is not None or node is None or node.format is None
    if layout is None and is_image and is_n5:
        what = "a precomputed volume" if described is None else "a file about images"
        raise InvalidArgumentError(f"{found.named or source.text} is {what}; in N5, {_VIEWERS}")
    known = None if described is not None else images_in(source)
    if layout is None and not is_image:
        assert node is not None
        if known is None:
            return ""
        if is_n5:
            return f"what makes it an image is left out, since N5 has no such attributes; {_VIEWERS}"
        is_file = bool(known.beside) and bool(images_after(source))
        if known.beside is None or (known.beside and not (is_file or node.rules.has_containers)):
            return ""
        if known.beside and not is_file:
            return (
                f"what makes it an image is left out, since {known.beside[0]} is no level of it; "
                'layout="ome-zarr" (--layout ome-zarr) copies the image alone'
            )
    _check_options(options, how)
    image: ImagePlan
    images = described if known is None else known.found
    if layout in (None, "ome-zarr"):
        image = NgffImagePlan(source, destination, format, options, images)
    else:
        image = N5ImagePlan(source, destination, layout, options, images)
    image.beside = [] if known is None or known.beside is None or image.has_others else known.beside
    if how.strict and image.beside:
        raise UnsupportedError(f"{image.beside[0]}: it is no level of the image, so the copy would lack it")
    image.check_free(how)
    return tree_copy_to(image, destination, format, how, workers=workers)


def _check_options(options: Mapping[str, Any], how: CopyOptions) -> None:
    for name in array_options(options):
        if name in _OF_ARRAYS:
            raise OptionError(f"{name}: it is for arrays; the levels of an image have those of its axes")
    if how.cast == "scale":
        raise OptionError("cast: scale would scale each level by itself; it is for single arrays")
