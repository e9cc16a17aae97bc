"""Images in N5 containers: the layouts of n5-viewer, COSEM, Paintera and BigDataViewer."""

import json

import numpy as np
import pytest
import z5py
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.trees.location import locate

SHAPE = (12, 10, 8)  # z, y, x, as z5py has it


def _dataset(path, name, k, dtype="uint16", **attributes):
    """Write a level with z5py, half as large as the one before along x and y, and return its values."""
    shape = (SHAPE[0], SHAPE[1] // 2**k, SHAPE[2] // 2**k)
    values = np.random.default_rng(k).integers(0, 100, shape).astype(dtype)
    with z5py.File(str(path), mode="a", use_zarr_format=False) as file:
        dataset = file.create_dataset(name, data=values, chunks=(4, 4, 4), compression="gzip")
        dataset.attrs.update(attributes)
    return values.T


def _attributes(path, **attributes):
    path.mkdir(parents=True, exist_ok=True)
    file = path / "attributes.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, **attributes}))


def _check(image, values, scale, unit="nm"):
    """The levels have these values; that of full resolution has voxels of `scale`, x first."""
    assert [axis.name for axis in image.axes[:3]] == ["x", "y", "z"] and image.axes[0].unit == unit
    for k, (level, expected) in enumerate(zip(image.levels, values, strict=True)):
        np.testing.assert_array_equal(level.read().result(), expected)
        f = np.array([2**k, 2**k, 1])
        np.testing.assert_allclose(image.scales[k], f * scale)
        np.testing.assert_allclose(
            np.subtract(image.translations[k], image.translations[0]), (f - 1) / 2 * scale
        )
        assert [str(u) for u in level.dimension_units] == [f"{n:.6g} {unit}" for n in image.scales[k]]


FACTORS = [[1, 1, 1], [2, 2, 1], [4, 4, 1]]


@pytest.mark.parametrize("where", ["datasets", "scales", "downsamplingFactors", "shapes"])
@pytest.mark.parametrize("resolution", ["object", "list", "resolution"])
def test_n5_viewer(tmp_path, where, resolution):
    """Factors are at each level, at the group, or nowhere; so is the size of a voxel."""
    path, size = tmp_path / "a.n5", [4.0, 8.0, 40.0]
    own = {"downsamplingFactors": None} if where != "datasets" else {}
    values = []
    for k in range(3):
        extra = {"downsamplingFactors": FACTORS[k]} if not own else {}
        if resolution == "object":
            extra["pixelResolution"] = {"unit": "nm", "dimensions": size}
        values.append(_dataset(path, f"em/s{k}", k, **extra))
    group = {} if where in ("datasets", "shapes") else {where: FACTORS}
    if resolution == "list":
        group |= {"pixelResolution": size, "units": ["nm"] * 3}
    if resolution == "resolution":
        group |= {"resolution": size, "units": ["nm"] * 3}
    _attributes(path / "em", **group)
    image = cw.open_multiscale(path / "em")
    assert image.convention == "n5-viewer" and image.name == "em"
    _check(image, values, size)
    assert [level.origin for level in image.levels] == [(0, 0, 0)] * 3


def test_n5_viewer_affine(tmp_path):
    affine = [[1, 0, 0, 100.0], [0, 1, 0, 0], [0, 0, 1, 0]]
    _dataset(tmp_path / "a.n5", "s0", 0, affineTransform=affine)
    image = cw.open_multiscale(tmp_path / "a.n5")
    assert image.translations[0] == (100.0, 0.0, 0.0) and image.levels[0].origin == (100, 0, 0)
    affine[0][1] = 0.5
    _attributes(tmp_path / "a.n5" / "s0", affineTransform=affine)
    with pytest.raises(NotImplementedError, match=r"s0/attributes.json.*affineTransform: expected scale"):
        cw.open_multiscale(tmp_path / "a.n5")
    with pytest.warns(UserWarning, match="affineTransform"):
        assert cw.open_multiscale(tmp_path / "a.n5", strict=False).convention == "raw"


def test_channels_of_n5_viewer(tmp_path):
    values = [_dataset(tmp_path / "a.n5", f"c{c}/s0", 0) for c in range(3)]
    images = cw.open_multiscale(tmp_path / "a.n5")
    assert list(images) == ["c0", "c1", "c2"] and images.convention == "n5-viewer"
    np.testing.assert_array_equal(images["c2"].levels[0], values[2])


@pytest.mark.parametrize("where", ["group", "datasets"])
def test_cosem(tmp_path, where):
    path, values, datasets = tmp_path / "a.n5", [], []
    for k in range(2):
        f = 2**k
        transform = {
            "axes": ["z", "y", "x"],
            "units": ["nm"] * 3,
            "scale": [40.0, 8.0 * f, 4.0 * f],
            "translate": [400.0, 4.0 * (f - 1), 2.0 * (f - 1)],
        }
        values.append(
            _dataset(path, f"em/s{k}", k, **({"transform": transform} if where == "datasets" else {}))
        )
        datasets.append({"path": f"s{k}", "transform": transform})
    _attributes(
        path / "em", **({"multiscales": [{"name": "em", "datasets": datasets}]} if where == "group" else {})
    )
    image = cw.open_multiscale(path / "em")
    assert image.convention == "cosem"
    _check(image, values, [4.0, 8.0, 40.0])
    assert image.translations[1] == (2.0, 4.0, 400.0) and image.levels[1].origin == (0, 0, 10)
    if where == "group":
        datasets[1]["transform"]["scale"] = [1, 2]
        _attributes(path / "em", multiscales=[{"datasets": datasets}])
        with pytest.raises(ValueError, match=r"attributes.json.*datasets\[1\]: transform: scale: expected 3"):
            cw.open_multiscale(path / "em")


def test_paintera(tmp_path):
    path = tmp_path / "a.n5"
    values = [
        _dataset(path, f"raw/data/s{k}", k, **({"downsamplingFactors": FACTORS[k]} if k else {}))
        for k in range(3)
    ]
    _attributes(path / "raw", painteraData={"type": "raw"})
    _attributes(
        path / "raw/data", multiScale=True, resolution=[4.0, 4.0, 40.0], offset=[0.0, 8.0, 400.0], unit="nm"
    )
    image = cw.open_multiscale(path / "raw")
    assert image.convention == "paintera" and image.name == "raw" and not image.is_labels
    _check(image, values, [4.0, 4.0, 40.0])
    assert image.levels[0].origin == (0, 2, 10)
    assert cw.open_multiscale(path / "raw/data").scales == image.scales
    _attributes(path / "raw", painteraData={"type": "label"})
    assert cw.open_multiscale(path / "raw").is_labels


def test_label_multisets_of_paintera(tmp_path):
    path = tmp_path / "a.n5" / "cells"
    blocks = {"dimensions": [4, 2, 2], "block_size": [2, 2, 2], "data_type": "uint8"}
    cw.create_n5_blocks(path / "data/s0", attributes={"isLabelMultiset": True}, **blocks)
    cw.open_label_multisets(path / "data/s0")[1, 0, 0] = [[7, 3], [8, 5]]
    _attributes(path, painteraData={"type": "label"})
    _attributes(path / "data", multiScale=True, resolution=[4.0, 4.0, 40.0])
    image = cw.open_multiscale(path)
    assert image.is_labels and image.levels[0].shape == (4, 2, 2)
    assert image.levels[0][1, 0, 0].read().result().item() == [[7, 3], [8, 5]]


def _bdv(path, n_setups=2, n_times=1, affine="4 0 0 400 0 8 0 0 0 0 40 0"):
    values = {}
    for setup in range(n_setups):
        for time in range(n_times):
            for k in range(2):
                name = f"setup{setup}/timepoint{time}/s{k}"
                values[setup, time, k] = _dataset(path, name, k)
            _attributes(path / f"setup{setup}/timepoint{time}", multiScale=True, resolution=[1.0, 1.0, 1.0])
        _attributes(path / f"setup{setup}", downsamplingFactors=FACTORS[:2], dataType="uint16")
    setups = "".join(
        f"<ViewSetup><id>{i}</id><name>channel {i}</name><size>8 10 12</size>"
        "<voxelSize><unit>nm</unit><size>1.0 2.0 10.0</size></voxelSize></ViewSetup>"
        for i in range(n_setups)
    )
    views = "".join(
        f'<ViewRegistration timepoint="0" setup="{i}"><ViewTransform type="affine"><affine>{affine}</affine>'
        "</ViewTransform><ViewTransform><affine>1 0 0 0 0 1 0 0 0 0 1 10</affine></ViewTransform>"
        "</ViewRegistration>"
        for i in range(n_setups)
    )
    path.with_suffix(".xml").write_text(
        '<SpimData version="0.2"><SequenceDescription><ImageLoader format="bdv.n5" version="1.0">'
        f'<n5 type="relative">{path.name}</n5></ImageLoader><ViewSetups>{setups}</ViewSetups>'
        f"</SequenceDescription><ViewRegistrations>{views}</ViewRegistrations></SpimData>"
    )
    return values


@pytest.mark.parametrize("suffix", [".n5", ".xml"])
def test_bigdataviewer(tmp_path, suffix):
    """The container or its XML file gives the setups, with sizes and places from the file."""
    values = _bdv(tmp_path / "a.n5")
    images = cw.open_multiscale(tmp_path / f"a{suffix}")
    assert list(images) == ["setup0", "setup1"] and images.convention == "bdv"
    image = images["setup1"]
    assert image.name == "channel 1"
    _check(image, [values[1, 0, 0], values[1, 0, 1]], [4.0, 8.0, 40.0])
    assert image.translations[0] == (400.0, 0.0, 400.0) and image.levels[0].origin == (100, 0, 10)
    alone = cw.open_multiscale(tmp_path / "a.n5" / "setup1" / "timepoint0")
    assert (alone.scales, alone.translations) == (image.scales, image.translations)
    assert cw.open_multiscale(tmp_path / "a.n5" / "setup1").scales == image.scales


def test_times_of_bigdataviewer(tmp_path):
    values = _bdv(tmp_path / "a.n5", n_setups=1, n_times=3)
    image = cw.open_multiscale(tmp_path / "a.n5")["setup0"]
    assert [(axis.name, axis.type) for axis in image.axes][-1] == ("t", "time")
    level = image.levels[1]
    assert level.shape == (4, 5, 12, 3) and level.domain.labels == ("x", "y", "z", "t")
    np.testing.assert_array_equal(level, np.stack([values[0, t, 1] for t in range(3)], -1))
    assert str(level.dimension_units[0]) == "8 nm" and level.dimension_units[3] is None
    trace = TraceStore(locate(str(tmp_path)).store)
    location = locate(str(tmp_path / "a.n5" / "setup0"))._replace(store=trace)
    np.testing.assert_array_equal(cw.open_multiscale(location).levels[1], level)


def test_turned_stacks_have_the_voxel_size(tmp_path):
    _bdv(tmp_path / "a.n5", affine="0 -4 0 400 4 0 0 0 0 0 40 0")
    image = cw.open_multiscale(tmp_path / "a.n5")["setup0"]
    assert image.scales[0] == (1.0, 2.0, 10.0) and image.translations[0] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<SpimData", "no XML"),
        (
            '<S><SequenceDescription><ImageLoader format="bdv.hdf5"/></SequenceDescription></S>',
            "ImageLoader/hdf5",
        ),
        ('<S><SequenceDescription><ImageLoader format="imaris"/></SequenceDescription></S>', "bdv.n5"),
    ],
)
def test_wrong_files_of_bigdataviewer(tmp_path, text, says):
    _bdv(tmp_path / "a.n5")
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises((ValueError, NotImplementedError), match=rf"a.xml.*{says}"):
        cw.open_multiscale(tmp_path / "a.xml")


@pytest.mark.parametrize("layout", ["n5-viewer", "paintera", "bdv"])
def test_copies_of_images_are_read_back(tmp_path, layout):
    """What is copied to a layout of N5 has the sizes and values of its source."""
    scan = np.random.default_rng(0).integers(0, 200, (2, 8, 12, 20)).astype("uint16")
    cw.downsample_pyramid(
        cw.array(scan),
        tmp_path / "a.zarr",
        axes=list("czyx"),
        units=[None, "40 nm", "8 nm", "4 nm"],
        levels=1,
    ).result()
    assert (
        main(["cp", "-r", "--quiet", str(tmp_path / "a.zarr"), str(tmp_path / "b.n5"), "--layout", layout])
        == 0
    )
    source = cw.open_multiscale(tmp_path / "a.zarr")
    images = cw.open_multiscale(tmp_path / "b.n5")
    assert len(images) == 2
    image = images[list(images)[1]]
    assert image.convention == layout
    np.testing.assert_array_equal(image.levels[1], np.asarray(source.levels[1])[1].T)
    assert image.scales == tuple(scale[:0:-1] for scale in source.scales)
    assert image.translations == tuple(at[:0:-1] for at in source.translations)


@pytest.mark.parametrize("convention", ["n5-viewer", "cosem"])
def test_pyramids_are_read_back(tmp_path, convention):
    scan = np.random.default_rng(0).integers(0, 200, (8, 12, 20)).astype("uint16")
    made = cw.downsample_pyramid(
        cw.array(scan), tmp_path / "b.n5/em", axes=list("zyx"), units=["40 nm", "8 nm", "4 nm"], levels=2,
        convention=convention,
    ).result()  # fmt: skip
    image = cw.open_multiscale(tmp_path / "b.n5/em")
    assert image.convention == convention
    for level, expected, factors in zip(image.levels, made.levels, made.factors, strict=True):
        np.testing.assert_array_equal(level, expected)
        sizes = np.multiply([4.0, 8.0, 40.0], factors)
        assert [u.multiplier for u in level.dimension_units] == sizes.tolist()
        assert level.origin == (0, 0, 0)
