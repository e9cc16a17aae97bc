"""Edits of images that a file describes, by its name, and of those of COSEM in Zarr."""

from __future__ import annotations

from pathlib import Path

import pytest
from packed_things import PACKED_THINGS
from things import THINGS

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import InvalidArgumentError, UnsupportedError

_PLACED = """<ViewRegistrations><ViewRegistration timepoint="0" setup="0"><ViewTransform type="affine">
<affine>0.5 0 0 0 0 0.5 0 0 0 0 2 0</affine></ViewTransform></ViewRegistration></ViewRegistrations>"""


@pytest.mark.parametrize(
    "title", ["BigDataViewer file", "BigDataViewer file of HDF5", "BigDataViewer file of OME-Zarr"]
)
def test_setups_that_a_file_describes(tmp_path: Path, title: str) -> None:
    """The XML file has their sizes and places, whatever the container."""
    place = tmp_path / THINGS[title](tmp_path).path
    with pytest.raises(InvalidArgumentError, match=r"name= \(--name\) says which: setup0"):
        cw.edit_image(place, scale={"x": 3})
    with pytest.raises(InvalidArgumentError, match="holds no 'setup7'"):
        cw.edit_image(place, name="setup7", scale={"x": 3})
    before = place.read_bytes()
    with pytest.raises(UnsupportedError, match="no ViewRegistration of setup 0"):
        cw.edit_image(place, name="setup0", translation={"z": 5})
    with pytest.raises(UnsupportedError, match="one unit for all axes of space, not nm"):
        cw.edit_image(place, name="setup0", units={"x": "nm", "y": "um", "z": "nm"})
    with pytest.raises(InvalidArgumentError, match="expected a number"):
        cw.edit_image(place, name="setup0", scale={"x": 10**400})
    assert place.read_bytes() == before
    place.write_text(place.read_text().replace("</SpimData>", f"{_PLACED}</SpimData>"))
    names = [axis.name for axis in cw.open_multiscale(place)["setup0"].axes]
    image = cw.edit_image(
        place, name="setup0", scale={"x": 3}, translation={"z": 5}, units=dict.fromkeys("xyz", "nm")
    )
    assert dict(zip(names, image.scales[0], strict=True)) == {"x": 3, "y": 0.5, "z": 2}
    assert dict(zip(names, image.translations[0], strict=True)) == {"x": 0, "y": 0, "z": 5}
    assert {axis.unit for axis in image.axes} == {"nm"}
    assert main(["image", str(place), "--name", "setup0", "--scale", "y=2", "--json"]) == 0
    assert cw.open_multiscale(place)["setup0"].scales[0][names.index("y")] == 2


def test_cosem_in_zarr_becomes_ome_zarr(tmp_path: Path) -> None:
    place = tmp_path / PACKED_THINGS["COSEM in Zarr v2"](tmp_path).path
    image = cw.edit_image(place, scale={"z": 80}, units=dict.fromkeys("zyx", "um"))
    assert image.scales == ((80, 4, 4), (160, 8, 8)) and image.translations[1] == (0, 2, 2)
    (entry,) = cw.open_group(place).attrs["multiscales"]
    assert entry["axes"][0] == {"name": "z", "type": "space", "unit": "micrometer"}
    assert not any("transform" in dataset for dataset in entry["datasets"])
