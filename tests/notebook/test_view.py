"""``.view()``: slices that the widget is sent, and what it is sent when something else is looked at."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

import chunkwise as cw
from chunkwise.images.multiscale.sampling import NAN_COLOR
from chunkwise.notebook.slices import Slice, Slicer


def _pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def _grey(plane, values):
    """Return a plane as it is drawn, with the contrast of values."""
    low, high = np.percentile(values.astype(float), (0.5, 99.8))
    return np.rint(((plane.astype(float) - low) * 255 / (high - low)).clip(0, 255))


@pytest.fixture
def scan():
    return np.random.default_rng(0).integers(0, 255, (3, 8, 20, 30)).astype("uint8")


def test_slices_have_the_values(scan):
    """Contrast is that of a channel, so that slices can be compared."""
    slicer = Slicer(cw.array(scan).label["c", "z", "y", "x"])
    assert [tuple(one) for one in slicer.sliders] == [("c", 0, 3), ("z", 0, 8)]
    drawn = slicer.draw(Slice((1, 4)))
    np.testing.assert_allclose(_pixels(drawn.png), _grey(scan[1, 4], scan[1]), atol=1)
    assert drawn.box == (0, 0, 1, 1) and drawn.level == 0 and drawn.problem == ""
    outside = slicer.draw(Slice((9, 99), (7.0, -3.0), 0.1))
    assert outside.seen == Slice((2, 7), (0.5, 0.5), 1.0)
    np.testing.assert_array_equal(_pixels(outside.png), _pixels(slicer.draw(Slice((2, 7))).png))


@pytest.mark.parametrize("dtype", ["int64", "bool", "float64", "complex64", ">u2"])
def test_numbers_of_any_type_are_grey(scan, dtype):
    values = (scan[0] // 128 if dtype == "bool" else scan[0]).astype(dtype)
    real = np.abs(values).astype(float)
    drawn = Slicer(cw.array(values)).draw(Slice((4,)))
    np.testing.assert_allclose(_pixels(drawn.png), _grey(real[4], real), atol=1)


def test_a_part_is_drawn_by_itself(scan):
    slicer = Slicer(cw.array(scan[0])[:, 2:, 4:])  # whose indices begin elsewhere
    drawn = slicer.draw(Slice((3,), (1.0, 1.0), 2.0))
    assert drawn.box == (0.5, 0.5, 1.0, 1.0) and drawn.seen.center == (0.75, 0.75)
    np.testing.assert_allclose(_pixels(drawn.png), _grey(scan[0, 3, 11:, 17:], scan[0, :, 2:, 4:]), atol=1)
    assert slicer.draw(Slice((3,), zoom=1e9)).seen.zoom == slicer.most_zoom == 26 / 4


def test_x_goes_across_in_n5_too(tmp_path, scan):
    array = cw.create_array(tmp_path / "a.n5", scan[0].T, dimension_names=["x", "y", "z"])
    slicer = Slicer(cw.open_multiscale(tmp_path / "a.n5"))
    assert [one.name for one in slicer.sliders] == ["z"] and array.rank == 3
    np.testing.assert_allclose(_pixels(slicer.draw(Slice((2,))).png), _grey(scan[0, 2], scan[0]), atol=1)


def test_levels_follow_the_zoom_and_voxels_their_size(tmp_path):
    values = np.random.default_rng(1).integers(0, 999, (2, 2048, 1024)).astype("uint16")
    cw.downsample_pyramid(
        cw.array(values), tmp_path / "a.zarr", axes=list("zyx"), units=["1 um", "1 um", "4 um"], levels=2
    ).result()
    image = cw.open_multiscale(tmp_path / "a.zarr")
    slicer = Slicer(image)
    assert slicer.aspect == 2.0 and [one.stop for one in slicer.sliders] == [2]
    coarse = [level.shape for level in image.levels]
    first, fine = slicer.draw(slicer.first()), slicer.draw(Slice((0,), zoom=8.0))
    assert 0 == fine.level < first.level and _pixels(fine.png).shape == (256, 128)
    assert _pixels(first.png).shape[1] <= coarse[first.level][2]


def test_planes_that_are_too_large_are_first_seen_in_part():
    array = cw.virtual_chunked(
        lambda domain, out, _: out.fill(7), dtype="uint8", shape=[1 << 20, 1 << 20], chunk_layout=None
    )
    slicer = Slicer(array)
    drawn = slicer.draw(slicer.first())
    assert drawn.seen.zoom > 100 and max(_pixels(drawn.png).shape) <= 2048
    whole = _pixels(slicer.draw(Slice(())).png)  # of single elements
    assert max(whole.shape) <= 2048 and whole.std() == 0


def test_labels_have_stable_colours(tmp_path):
    labels = np.array([[0, 1], [2, 1]], "uint32").repeat(4, 0).repeat(4, 1)
    cw.downsample_pyramid(cw.array(labels), tmp_path / "a.zarr", labels=True, levels=0).result()
    group = cw.open_group(tmp_path / "a.zarr", "r+")
    ome = group.attrs["ome"]
    ome["image-label"] = {"colors": [{"label-value": 2, "rgba": [9, 8, 7, 255]}]}
    group.attrs["ome"] = ome
    pixels = _pixels(Slicer(cw.open_multiscale(tmp_path / "a.zarr")).draw(Slice(())).png)
    assert pixels.shape == (8, 8, 3) and not pixels[0, 0].any() and (pixels[0, 7] == pixels[7, 7]).all()
    assert pixels[7, 0].tolist() == [9, 8, 7] and (pixels[0, 7] != pixels[7, 0]).any()


def test_what_has_no_plane():
    with pytest.raises(ValueError, match="two dimensions"):
        Slicer(cw.array(np.zeros(3)))


def test_widget(tmp_path, scan):
    """Looking elsewhere draws another picture, and what is drawn is told with it."""
    cw.downsample_pyramid(cw.array(scan[0]), tmp_path / "a.zarr", axes=["z", "y", "x"], levels=1).result()
    image = cw.open_multiscale(tmp_path / "a.zarr")
    widget = image.view()
    assert widget.n_levels == 2 and widget.shown["position"] == (4,) and widget.shown["number"] == 0
    slicer = Slicer(image)
    assert widget.png == slicer.draw(Slice((4,))).png
    widget.show([1], zoom=2.0)
    assert widget.png == slicer.draw(Slice((1,), zoom=2.0)).png
    assert widget.shown["zoom"] == 2.0 and widget.shown["number"] == 1
    widget.show(center=(0.0, 0.0))
    assert widget.shown["box"][:2] == (0, 0) and widget.shown_slice() == Slice((1,), (0.25, 0.25), 2.0)
    for wrong in ({"position": [1, 2]}, {"position": {"z": 1}}, {"center": (0, 0, 0)}, {"zoom": "all"}):
        with pytest.raises(ValueError, match="expected"):
            widget.show(**wrong)
    before = widget.png
    widget.wanted = {"position": ["x"], "number": 9}  # an answer comes all the same
    assert (
        widget.png == before
        and widget.shown["number"] == 9
        and "expected position" in widget.shown["problem"]
    )


def test_a_damaged_chunk_is_told_and_the_rest_is_drawn(tmp_path, scan):
    array = cw.create_array(tmp_path / "a.zarr", scan[0], chunks=(1, 20, 15), checksum=True)
    (tmp_path / "a.zarr" / "c" / "3" / "0" / "0").write_bytes(b"damaged")
    widget = array.view()
    widget.show([3])
    assert "c/3/0/0" in widget.shown["problem"]
    pixels = _pixels(widget.png)
    assert not pixels[:, :15].any() and pixels[:, 15:].std() > 40
    widget.show([2])
    assert widget.shown["problem"] == ""


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"chunkwise\[notebook\]"):
        cw.array(np.zeros((2, 2))).view()


def test_what_is_no_number_has_its_colour():
    values = np.arange(48.0).reshape(6, 8)
    values[2, 3:6] = np.nan
    picture = np.asarray(Image.open(io.BytesIO(cw.array(values).view().png)))
    assert (picture == NAN_COLOR).all(-1).sum() == 3 and (picture[2, 3:6] == NAN_COLOR).all()


def test_contrast_and_channels(tmp_path, scan):
    """Channels are summed in their colours, each with its window; without any, one is grey as before."""
    array = cw.array(scan).label["c", "z", "y", "x"]
    widget = array.view()
    assert [one["label"] for one in widget.channels] == ["channel 0", "channel 1", "channel 2"]
    assert widget.shown["channels"] == () and widget.shown["windows"][0][0] == 1
    widget.show(channels=[(0, "ff0000", 0, 100), (2, "0000ff", 50, 250)])
    red, blue = (
        np.rint(((scan[c, 4].astype(float) - low) / (high - low)).clip(0, 1) * 255)
        for c, low, high in ((0, 0, 100), (2, 50, 250))
    )
    np.testing.assert_allclose(_pixels(widget.png), np.stack([red, 0 * red, blue], -1), atol=1)
    assert widget.shown["windows"] == ((0, 0.0, 100.0), (2, 50.0, 250.0))
    widget.show(channels=[(1,)])  # its own window, in white
    np.testing.assert_allclose(_pixels(widget.png)[..., 0], _grey(scan[1, 4], scan[1]), atol=1)
    before = widget.png
    for wrong in ([(0, "red")], [()], [("x", "ff0000")]):
        with pytest.raises(ValueError, match="channels"):
            widget.show(channels=wrong)
    widget.show(channels=[(9, "ff0000")])  # there is no such channel: none is left, so one is grey
    assert widget.png != before and widget.shown["channels"] == ()
    plain = cw.array(scan[0]).view()
    plain.show(channels=[(0, "ffffff", 100, 101)])
    assert set(np.unique(_pixels(plain.png))) <= {0, 255}
    labels = np.zeros((4, 4), "u4")
    cw.downsample_pyramid(cw.array(labels), tmp_path / "l.zarr", labels=True, levels=0).result()
    assert cw.open_multiscale(tmp_path / "l.zarr").view().channels == []
