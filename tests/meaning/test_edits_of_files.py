"""Images that a file describes are edited by the name of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
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
