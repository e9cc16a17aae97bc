"""Edits of images in N5: the attributes of groups and levels, and the XML file of BigDataViewer.

Sizes of voxels change by the same factors wherever they are, whether of full resolution or of a level.  A
position is the ``offset`` of Paintera, the ``transform`` of COSEM, the registrations of BigDataViewer, or an
affine transformation of each level; see `chunkwise.images.multiscale.n5_image`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any
from xml.etree import ElementTree

import numpy as np

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, find_node, read_attributes
from chunkwise.images.editing.change import Change, Edit
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Transformation

__all__ = ["n5_edits"]

_NEARLY = 1e-6  # of a voxel
_TRANSFORM, _AFFINE, _OFFSET = "transform", "affineTransform", "offset"


def n5_edits(image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
    """Return the edits of an image in N5."""
    space = [dim for dim, axis in enumerate(image.axes) if axis.type == "space"]
    if image.convention != "cosem" and len({change.units[dim] for dim in space}) > 1:
        shown = ", ".join(change.units[dim] or "none" for dim in space)
        raise UnsupportedError(f"units: {image.convention} has one unit for all axes of space, not {shown}")
    levels = [location.child(path) for path in image.paths]
    if any(_kind(at) != "array" for at in levels):
        raise InvalidArgumentError(
            f"{location.text} is put together of images in several groups; edit each of them"
        )
    groups = _groups(image, location)
    known = {at.path: read_attributes(at) for at in (*groups, *levels)}
    edits: list[Edit] = []
    file = _bdv_file(location) if image.convention == "bdv" else None
    if file is None:
        edits += _positions(image, change, groups, levels, known)
    for at in (*groups, *levels):
        if any(name in known[at.path] for name in ("resolution", "pixelResolution", "units", "unit")):
            edits.append(Edit(at, None, partial(_with_sizes, change=change, space=space)))
    edits.append(Edit(groups[0], None, partial(_with_unit_and_size, image=image, change=change, known=known)))
    for number, at in enumerate(levels):
        if _TRANSFORM in known[at.path]:
            edits.append(Edit(at, None, partial(_with_transform, place=change.places[number], change=change)))
    for at in groups:
        if image.convention == "cosem" and "multiscales" in known[at.path]:
            edits.append(Edit(at, None, partial(_with_transforms, change=change)))
    if file is not None:
        above, key, setup = file
        edits.append(Edit(above, key, partial(_edited_xml, setup=setup, image=image, change=change)))
    return edits


def _kind(location: Location) -> str:
    node = find_node(location)
    return "" if node is None else node.kind


def _groups(image: MultiscaleImage, location: Location) -> list[Location]:
    """Return the groups that the levels are in, the innermost first, up to that of the image."""
    found = []
    names = image.paths[0].split("/")[:-1]
    for n in range(len(names), -1, -1):
        found.append(location.child("/".join(names[:n])) if n else location)
    above = location.parent
    if image.convention in ("paintera", "bdv") and above is not None and not names:
        found.append(above)
    return [at for at in found if _kind(at) == "group"]


def _positions(
    image: MultiscaleImage,
    change: Change,
    groups: Sequence[Location],
    levels: Sequence[Location],
    known: dict[str, dict[str, JSON]],
) -> list[Edit]:
    """Return the edits of offsets and affine transformations."""
    if image.convention == "cosem":
        return []
    old = [level.place for level in image._metadata.levels]
    if change.places == tuple(old):
        return []
    affines = [_affine(known[at.path].get(_AFFINE), len(image.axes)) for at in levels]
    owner = next((at for at in groups if _OFFSET in known[at.path]), None)
    if owner is None and image.convention == "paintera":
        owner = groups[0]
    start = np.array(known[owner.path].get(_OFFSET, [0.0] * len(image.axes)) if owner else 0.0, float)
    edits = []
    moved = (np.array(change.places[0].translation) - affines[0][1]) / affines[0][0]
    plain = [
        (np.array(was.translation) - at) / by - start for was, (by, at) in zip(old, affines, strict=True)
    ]  # by how much a level lies inwards, by its factor alone
    plain = [shift * change.factors for shift in plain]
    if owner is not None:
        start = moved - plain[0]
        values = [float(f"{value:.14g}") for value in start]
        edits.append(Edit(owner, None, lambda stored: {**stored, _OFFSET: values}))
    for number, at in enumerate(levels):
        place, (by, _) = change.places[number], affines[number]
        shift = np.array(place.translation) - (plain[number] + start) * by
        shift[abs(shift) <= _NEARLY * np.array(place.scale)] = 0.0
        if _AFFINE in known[at.path] or shift.any():
            if image.convention == "bdv":
                raise UnsupportedError("translation: a container without an XML file has no positions")
            edits.append(Edit(at, None, partial(_with_affine, by=by, shift=shift)))
    return edits


def _affine(value: JSON, rank: int) -> tuple[Any, Any]:
    """Return scale and shift of an affine transformation, which was read before."""
    by, shift = np.ones(rank), np.zeros(rank)
    if value is not None:
        matrix = np.array(value, float).reshape(-1, np.shape(value)[-1] if np.ndim(value) > 1 else 4)
        n = min(rank, len(matrix))
        by[:n], shift[:n] = np.diag(matrix)[:n], matrix[:n, -1]
    return by, shift


def _with_affine(stored: dict[str, JSON], by: Any, shift: Any) -> dict[str, JSON]:
    n = max(3, len(by))
    rows = np.zeros((n, n + 1))
    rows[range(n), range(n)] = 1.0
    rows[range(len(by)), range(len(by))] = by
    rows[: len(shift), -1] = [float(f"{value:.14g}") for value in shift]
    flat = isinstance(stored.get(_AFFINE), list) and not isinstance(stored[_AFFINE][0], list)
    return {**stored, _AFFINE: rows.ravel().tolist() if flat else rows.tolist()}


def _with_sizes(stored: dict[str, JSON], change: Change, space: Sequence[int]) -> dict[str, JSON]:
    """Return attributes with sizes and units of voxels as they are to be."""
    out = dict(stored)
    unit = next((change.units[dim] for dim in space), "")
    if isinstance(out.get("resolution"), list):
        out["resolution"] = _times(out["resolution"], change, space)
    found = out.get("pixelResolution")
    if isinstance(found, dict):
        sizes = found.get("dimensions")
        out["pixelResolution"] = {
            **found,
            "unit": unit or "pixel",
            **({} if sizes is None else {"dimensions": _times(sizes, change, space)}),
        }
    elif isinstance(found, list):
        out["pixelResolution"] = _times(found, change, space)
    if isinstance(out.get("units"), list):
        out["units"] = list(change.units)
    if "unit" in out:
        out["unit"] = unit or "pixel"
    return out


def _times(sizes: list[Any], change: Change, space: Sequence[int]) -> list[float]:
    dims = range(len(change.factors)) if len(sizes) == len(change.factors) else space
    return [float(f"{n * change.factors[dim]:.14g}") for n, dim in zip(sizes, dims, strict=True)]


def _with_unit_and_size(
    stored: dict[str, JSON], image: MultiscaleImage, change: Change, known: dict[str, dict[str, JSON]]
) -> dict[str, JSON]:
    """Return the attributes of the group of the levels, with those that nothing has had so far."""
    found = [name for own in known.values() for name in own]
    out = dict(stored)
    if image.convention == "cosem" or (image.convention == "bdv" and "resolution" in found):
        return out
    if change.resizes() and not {"resolution", "pixelResolution"} & set(found):
        out["resolution"] = list(change.places[0].scale)
    if any(change.units) and not {"units", "unit", "pixelResolution"} & set(found):
        out["units"] = list(change.units)
    return out


def _with_transform(stored: dict[str, JSON], place: Transformation, change: Change) -> dict[str, JSON]:
    return {**stored, _TRANSFORM: _transform(stored[_TRANSFORM], place, change)}


def _transform(value: Any, place: Transformation, change: Change) -> dict[str, JSON]:
    """Return a transformation of COSEM, in C order."""
    scale, at = (list(part[::-1]) for part in place)
    return {**value, "scale": scale, "translate": at, "units": list(change.units[::-1])}


def _with_transforms(stored: dict[str, JSON], change: Change) -> dict[str, JSON]:
    first, *others = stored["multiscales"]
    datasets = [
        {**dataset, _TRANSFORM: _transform(dataset[_TRANSFORM], place, change)}
        for dataset, place in zip(first["datasets"], change.places, strict=True)
    ]
    return {**stored, "multiscales": [{**first, "datasets": datasets}, *others]}


def _bdv_file(location: Location) -> tuple[Location, str, int] | None:
    """Return the place and the key of the XML file beside a container, and the number of the setup."""
    setup = location if re.fullmatch(r"setup\d+", location.name) else location.parent
    container = None if setup is None else setup.parent
    above = None if container is None else container.parent
    if setup is None or container is None or above is None:
        return None
    key = f"{container.name.removesuffix('.n5')}.xml"
    if above.store.read(above.path + key).value is None:
        return None
    return above, key, int(setup.name.removeprefix("setup"))


def _edited_xml(value: bytes, setup: int, image: MultiscaleImage, change: Change) -> bytes:
    """Return the file with the size and unit of a setup, whose registrations get a last step."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(value, parser)
    for element in root.iterfind("SequenceDescription/ViewSetups/ViewSetup"):
        if (element.findtext("id") or "").strip() == str(setup):
            _edit_voxel(element, change)
    old, new = image._metadata.levels[0].place, change.places[0]
    by = np.array(change.factors[:3])
    shift = np.array(new.translation[:3]) - by * np.array(old.translation[:3])
    last = np.diag([*by, 1.0])
    last[:3, 3] = shift
    for view in root.iterfind("ViewRegistrations/ViewRegistration"):
        if view.get("setup") != str(setup) or (last == np.eye(4)).all():
            continue
        affine = view.find("ViewTransform/affine")
        if affine is None:
            step = ElementTree.SubElement(view, "ViewTransform", type="affine")
            ElementTree.SubElement(step, "Name").text = "calibration"
            affine = ElementTree.SubElement(step, "affine")
            affine.text = " ".join(map(repr, np.eye(4)[:3].ravel().tolist()))
        rows = np.reshape([float(n) for n in (affine.text or "").split()], (3, 4))
        whole = last @ np.vstack([rows, [0.0, 0.0, 0.0, 1.0]])
        affine.text = " ".join(repr(float(f"{n:.14g}")) for n in whole[:3].ravel().tolist())
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _edit_voxel(element: ElementTree.Element, change: Change) -> None:
    voxel = element.find("voxelSize")
    voxel = ElementTree.SubElement(element, "voxelSize") if voxel is None else voxel
    for name in ("unit", "size"):
        if voxel.find(name) is None:
            ElementTree.SubElement(voxel, name).text = "pixel" if name == "unit" else "1.0 1.0 1.0"
    unit, size = voxel.find("unit"), voxel.find("size")
    assert unit is not None and size is not None, "they were made"
    unit.text = change.units[0] or "pixel"
    sizes = zip((size.text or "").split(), change.factors, strict=False)
    size.text = " ".join(repr(float(f"{float(n) * f:.14g}")) for n, f in sizes)
