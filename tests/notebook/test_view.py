"""``.view()``: slices that the widget is sent, and what it is sent when sliders are moved."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

import chunkwise as cw
from chunkwise.notebook.slices import Slicer


def _pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.fixture
def scan():
    return np.random.default_rng(0).integers(0, 255, (3, 8, 20, 30)).astype("uint8")


def test_slices_have_the_values(scan):
    """The picture is the plane, stretched to the whole range of grey levels."""
    slicer = Slicer(cw.array(scan).label["c", "z", "y", "x"])
    assert [tuple(one) for one in slicer.sliders(0)] == [("c", 0, 3), ("z", 0, 8)]
    plane = scan[1, 4].astype(float)
    low, high = np.percentile(plane, (0.5, 99.8))
    expected = np.rint(((plane - low) * 255 / (high - low)).clip(0, 255))
    np.testing.assert_allclose(_pixels(slicer.png(0, [1, 4])), expected, atol=1)
    np.testing.assert_array_equal(_pixels(slicer.png(0, [9, 99])), _pixels(slicer.png(0, [2, 7])))


def test_x_goes_across_in_n5_too(tmp_path, scan):
    array = cw.create_array(tmp_path / "a.n5", scan[0].T, dimension_names=["x", "y", "z"])
    slicer = Slicer(cw.open_multiscale(tmp_path / "a.n5"))
    assert [one.name for one in slicer.sliders(0)] == ["z"] and array.rank == 3
    assert _pixels(slicer.png(0, [2])).shape == (20, 30)


def test_large_planes_are_thinned_out():
    assert max(_pixels(Slicer(cw.array(np.zeros((3000, 40), "uint8"))).png(0, [])).shape) <= 1024


def test_labels_have_stable_colours(tmp_path):
    labels = np.array([[0, 1], [2, 1]], "uint32").repeat(4, 0).repeat(4, 1)
    cw.downsample_pyramid(cw.array(labels), tmp_path / "a.zarr", labels=True, levels=0).result()
    pixels = _pixels(Slicer(cw.open_multiscale(tmp_path / "a.zarr")).png(0, []))
    assert pixels.shape == (8, 8, 3) and not pixels[0, 0].any() and (pixels[0, 7] == pixels[7, 7]).all()
    assert (pixels[0, 7] != pixels[7, 0]).any()


def test_what_has_no_plane():
    with pytest.raises(ValueError, match="two dimensions"):
        Slicer(cw.array(np.zeros(3)))


def test_widget(tmp_path, scan):
    """Moving a slider draws another slice; another level is shown at the same place."""
    cw.downsample_pyramid(cw.array(scan[0]), tmp_path / "a.zarr", axes=["z", "y", "x"], levels=1).result()
    image = cw.open_multiscale(tmp_path / "a.zarr")
    widget = image.view()
    assert (widget.n_levels, widget.level) == (2, 1) and _pixels(widget.png).shape == (10, 15)
    widget.position = [1]
    slicer = Slicer(image)
    assert widget.png == slicer.png(1, [1])
    widget.level = 0
    assert widget.position == [2] and widget.png == slicer.png(0, [2])
    assert [one["stop"] for one in widget.sliders] == [8]


def test_a_damaged_chunk_is_told(tmp_path, scan):
    array = cw.create_array(tmp_path / "a.zarr", scan[0], chunks=(1, 20, 30), checksum=True)
    (tmp_path / "a.zarr" / "c" / "3" / "0" / "0").write_bytes(b"damaged")
    widget = array.view()
    widget.position = [3]
    assert "c/3/0/0" in widget.error
    widget.position = [2]
    assert widget.error == ""


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"chunkwise\[notebook\]"):
        cw.array(np.zeros((2, 2))).view()
