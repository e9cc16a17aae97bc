"""The XML file by which BigDataViewer opens an N5 container: stacks, voxel sizes, positions of stacks.

Each channel is a *setup*.  The transformation of a stack takes voxels of full resolution to the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from chunkwise.images.multiscale.image_axes import ImageAxis
from chunkwise.images.pyramid.geometry import Level

__all__ = ["bdv_xml"]


def bdv_xml(
    container: str, name: str, axes: Sequence[ImageAxis], first: Level, *, n_channels: int, n_times: int
) -> bytes:
    """Return the XML file of an image whose container is beside it."""
    root = Element("SpimData", version="0.2")
    _add(root, "BasePath", ".", type="relative")
    sequence = _add(root, "SequenceDescription")
    loader = _add(sequence, "ImageLoader", format="bdv.n5", version="1.0")
    _add(loader, "n5", container, type="relative")
    setups = _add(sequence, "ViewSetups")
    for channel in range(n_channels):
        setup = _add(setups, "ViewSetup")
        _add(setup, "id", str(channel))
        _add(setup, "name", f"{name} {channel}" if n_channels > 1 else name)
        _add(setup, "size", " ".join(map(str, first.shape)))
        voxel = _add(setup, "voxelSize")
        _add(voxel, "unit", axes[0].unit or "pixel")
        _add(voxel, "size", " ".join(map(repr, first.scale)))
        _add(_add(setup, "attributes"), "channel", str(channel))
    channels = _add(setups, "Attributes", name="channel")
    for channel in range(n_channels):
        entry = _add(channels, "Channel")
        _add(entry, "id", str(channel))
        _add(entry, "name", str(channel))
    times = _add(sequence, "Timepoints", type="range")
    _add(times, "first", "0")
    _add(times, "last", str(n_times - 1))
    registrations = _add(root, "ViewRegistrations")
    rows = [
        [*(size if i == j else 0.0 for j in range(3)), at]
        for i, (size, at) in enumerate(zip(first.scale, first.translation, strict=True))
    ]
    affine = " ".join(repr(float(number)) for row in rows for number in row)
    for channel in range(n_channels):
        for time in range(n_times):
            view = _add(registrations, "ViewRegistration", timepoint=str(time), setup=str(channel))
            transform = _add(view, "ViewTransform", type="affine")
            _add(transform, "Name", "calibration")
            _add(transform, "affine", affine)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: Element, tag: str, text: str | None = None, **members: str) -> Element:
    child = ElementTree.SubElement(parent, tag, members)
    child.text = text
    return child
