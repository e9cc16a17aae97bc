"""XML files of BigDataViewer, BigStitcher and MoBIE over OME-Zarr, in the forms that their writers make."""

import numpy as np
import pytest
import zarr

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)  # z, y, x


def _image(root, values, names, levels=2, version="0.4"):
    """Write an OME-Zarr image, whose own sizes and places are others than those of the XML file."""
    group = zarr.open_group(str(root), mode="a", zarr_format=2 if version == "0.4" else 3)
    datasets, spatial = [], [name in "xyz" for name in names]
    for k in range(levels):
        part = values[tuple(slice(None, None, 2**k) if s else slice(None) for s in spatial)]
        array = group.create_array(str(k), shape=part.shape, dtype=part.dtype, chunks=part.shape)
        array[...] = part
        scale = [0.7 * 2**k if s else 1.0 for s in spatial]
        datasets.append({"path": str(k), "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    types = {"t": "time", "c": "channel"}
    axes = [{"name": name, "type": types.get(name, "space")} for name in names]
    image = {"axes": axes, "datasets": datasets, "name": "raw"}
    if version == "0.4":
        group.attrs["multiscales"] = [{**image, "version": version}]
    else:
        group.attrs["ome"] = {"version": version, "multiscales": [image]}


def _xml(place, loader, setups=(0, 1), times=(0,), extra="", name="dataset.xml"):
    views = "".join(
        f'<ViewRegistration timepoint="{t}" setup="{s}"><ViewTransform type="affine">'
        f"<affine>4 0 0 {80 * s} 0 4 0 0 0 0 40 0</affine></ViewTransform></ViewRegistration>"
        for t in times
        for s in setups
    )
    named = "".join(
        f"<ViewSetup><id>{s}</id><name>tile {s}</name><size>8 6 4</size><voxelSize><unit>nm</unit>"
        "<size>4 4 40</size></voxelSize></ViewSetup>"
        for s in setups
    )
    span = f'<Timepoints type="range"><first>{times[0]}</first><last>{times[-1]}</last></Timepoints>'
    (place / name).write_text(
        f'<SpimData version="0.2"><SequenceDescription>{loader}<ViewSetups>{named}</ViewSetups>{span}{extra}'
        f"</SequenceDescription><ViewRegistrations>{views}</ViewRegistrations></SpimData>"
    )
    return place / name


def _old(groups, zarr='<zarr type="relative">dataset.ome.zarr</zarr>'):
    """Version 1.0, of the Allen Institute's package and BigStitcher until 2025."""
    inner = "".join(
        f'<zgroup setup="{s}" timepoint="{t}"><path>{path}</path></zgroup>' for (s, t, path, *_) in groups
    )
    return (
        f'<ImageLoader format="bdv.multimg.zarr" version="1.0">{zarr}<zgroups>{inner}</zgroups></ImageLoader>'
    )


def _new(groups, zarr='<zarr type="relative">dataset.ome.zarr</zarr>', version="3.0"):
    """Version 3, of BigStitcher."""
    inner = "".join(
        f'<zgroup setup="{s}" tp="{t}" path="{path}" indicies="{index}" />' for s, t, path, index in groups
    )
    return (
        f'<ImageLoader format="bdv.multimg.zarr" version="{version}" zarr.version="ZarrV2">{zarr}'
        f"<zgroups>{inner}</zgroups></ImageLoader>"
    )


def _check(image, setup, values, levels=2):
    assert [axis.name for axis in image.axes] == ["z", "y", "x"] and image.axes[0].unit == "nm"
    assert image.name == f"tile {setup}" and image.convention == "bdv" and not image.problems
    assert image.scales[0] == (40, 4, 4) and image.translations[0] == (0, 0, 80 * setup)
    for k in range(levels):
        assert image.levels[k].dimension_units[2] == cw.Unit(4 * 2**k, "nm")
        part = values[:: 2**k, :: 2**k, :: 2**k]
        np.testing.assert_array_equal(image.levels[k].read().result(), part)
        assert image.scales[k] == (40 * 2**k, 4 * 2**k, 4 * 2**k)
    if levels > 1:  # voxels of BigDataViewer stand for cells
        assert image.translations[1] == (20, 2, 80 * setup + 2)


@pytest.mark.each_once
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("write", [_old, _new])
@pytest.mark.parametrize("names", ["zyx", "czyx", "tczyx"])
def test_an_image_for_each_view(tmp_path, write, names, version):
    ones = (1,) * (len(names) - 3)
    for setup in range(2):
        values = (VALUES + 1000 * setup).reshape(ones + VALUES.shape)
        _image(tmp_path / f"dataset.ome.zarr/s{setup}-t0.zarr", values, names, version=version)
    file = _xml(tmp_path, write([(s, 0, f"s{s}-t0.zarr", "[]" if s else "0 0") for s in range(2)]))
    images = cw.open_multiscale(file)
    assert list(images) == ["setup0", "setup1"] and images.problems == ()
    for setup in range(2):
        _check(images[f"setup{setup}"], setup, VALUES + 1000 * setup)


def test_parts_of_one_image(tmp_path):
    """Each view is a channel and a time of an image; times without view are zeros."""
    whole = np.stack([np.stack([VALUES + 1000 * c + 100 * t for c in range(2)]) for t in range(3)])
    _image(tmp_path / "dataset.ome.zarr/all.zarr", whole, "tczyx")
    groups = [(c, t, "all.zarr", f"{c} {t}") for t in (0, 2) for c in range(2)]
    missing = '<MissingViews><MissingView timepoint="1" setup="0"/></MissingViews>'
    file = _xml(tmp_path, _new(groups), times=(0, 1, 2), extra=missing)
    images = cw.open_multiscale(file)
    for c in range(2):
        image = images[f"setup{c}"]
        assert [axis.name for axis in image.axes] == ["z", "y", "x", "t"]
        for k in range(2):
            found = image.levels[k].read().result()
            for t in range(3):
                part = whole[t, c, :: 2**k, :: 2**k, :: 2**k] * (t != 1)
                np.testing.assert_array_equal(found[..., t], part)
    assert images["setup0"].problems == () and "time 1 is missing" in images["setup1"].problems[0]


def test_a_part_that_nothing_names_is_told(tmp_path):
    whole = np.stack([VALUES, VALUES + 1])[None]
    _image(tmp_path / "dataset.ome.zarr/a", whole, "tczyx")
    image = cw.open_multiscale(_xml(tmp_path, _old([(0, 0, "a")]), setups=(0,)))["setup0"]
    np.testing.assert_array_equal(image.levels[0].read().result(), VALUES)
    assert "no indicies" in image.problems[0]


def test_axes_in_another_order(tmp_path):
    _image(tmp_path / "dataset.ome.zarr/a", VALUES.T, "xyz")
    image = cw.open_multiscale(_xml(tmp_path, _new([(0, 0, "a", "[]")]), setups=(0,)))["setup0"]
    assert [axis.name for axis in image.axes] == ["x", "y", "z"] and image.scales[1] == (8, 8, 80)
    np.testing.assert_array_equal(image.levels[0].read().result(), VALUES.T)


@pytest.mark.each_once
@pytest.mark.parametrize("member", ["ome.zarr", "zarr"])
@pytest.mark.parametrize("names", ["zyx", "czyx", "tczyx"])
def test_one_image_whose_channels_are_setups(tmp_path, names, member):
    n = 1 if names == "zyx" else 2
    values = np.stack([VALUES + 1000 * c for c in range(n)])
    _image(tmp_path / "raw.ome.zarr", {"z": values[0], "c": values, "t": values[None]}[names[0]], names)
    loader = (
        f'<ImageLoader format="bdv.ome.zarr"><{member} type="relative">raw.ome.zarr</{member}></ImageLoader>'
    )
    images = cw.open_multiscale(_xml(tmp_path, loader, setups=range(n)))
    for setup in range(n):
        _check(images[f"setup{setup}"], setup, values[setup])


def test_absolute_places(tmp_path):
    _image(tmp_path / "data set.zarr/a", VALUES, "zyx")
    for text in (
        f"{tmp_path}/data set.zarr",
        f"file:{tmp_path}/data%20set.zarr/",
        f"file://{tmp_path}/data%20set.zarr",
    ):
        loader = _new([(0, 0, "a", "[]")], f'<zarr type="absolute">{text}</zarr>')
        _check(cw.open_multiscale(_xml(tmp_path, loader, setups=(0,)))["setup0"], 0, VALUES)


@pytest.mark.parametrize(
    ("loader", "error", "says"),
    [
        (_new([(0, 0, "../a", "[]")]), ValueError, "zgroup of setup 0: expected a path"),
        (_new([(0, 0, "a", "0 x")]), ValueError, "indicies: expected numbers"),
        (_new([("", 0, "a", "[]")]), ValueError, "zgroup: setup: expected a number"),
        (_new([(0, 0, "a", "[]")], "<zarr/>"), ValueError, "expected the path of a container"),
        (_new([(0, 0, "a", "[]")], "<zarr>ftp://x/y</zarr>"), NotImplementedError, "S3 or Google Cloud"),
        ('<ImageLoader format="bdv.ome.zarr.s3"/>', NotImplementedError, "bdv.ome.zarr.s3"),
    ],
)
def test_what_is_refused(tmp_path, loader, error, says):
    (tmp_path / "dataset.ome.zarr").mkdir()
    with pytest.raises(error, match=says):
        cw.open_multiscale(_xml(tmp_path, loader, setups=(0,)))


def test_views_that_are_no_images(tmp_path):
    _image(tmp_path / "dataset.ome.zarr/a", VALUES[None, None], "tczyx")
    loader = _new([(0, 0, "gone", "[]"), (1, 0, "a", "1 0")])
    images = cw.open_multiscale(_xml(tmp_path, loader))
    with pytest.raises(ValueError, match="no view with levels of setup 0"):
        images["setup0"]
    with pytest.raises(ValueError, match="axis c has 1 elements; there is no 1"):
        images["setup1"].levels[0]


def test_all_doors(tmp_path, capsys):
    """The array, the copies and the commands have the same elements, sizes and places."""
    whole = np.stack([VALUES, VALUES + 1000])[None]
    zarr.open_group(str(tmp_path / "dataset.ome.zarr"), mode="w", zarr_format=2)
    _image(tmp_path / "dataset.ome.zarr/a", whole, "tczyx")
    file = _xml(tmp_path, _new([(1, 0, "a", "1 0")]), setups=(1,))
    assert main(["slice", str(file), "--region", "0,0,20"]) == 0
    assert capsys.readouterr().out.strip().endswith("1000")
    for command in ("info", "tree", "verify"):
        assert main([command, str(file)]) == 0, capsys.readouterr().err
    assert main(["cp", "-r", str(file), str(tmp_path / "copy.zarr"), "--layout", "ome-zarr", "--quiet"]) in (
        0,
        3,
    )
    assert main(["pyramid", str(file), str(tmp_path / "made.zarr"), "--quiet"]) in (0, 3)
    for copy in ("copy.zarr", "made.zarr"):
        image = cw.open_multiscale(tmp_path / copy)
        assert image.scales[0] == (40, 4, 4) and image.translations[0] == (0, 0, 80)
        assert image.axes[2].unit == "nm" and image.levels[0].shape == (4, 6, 8)
        np.testing.assert_array_equal(image.levels[0].read().result(), VALUES + 1000)
