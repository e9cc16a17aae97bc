"""Images of N5, TIFF and other versions that `cp -r` makes images of OME-Zarr, and back again."""

import json

import numpy as np
import pytest
import tifffile
import yaozarrs

import chunkwise as cw
from chunkwise.cli.main import main

UNITS = {"t": "2 s", "c": None, "z": "40 nm", "y": "4 nm", "x": "4 nm"}
SIZES = {"t": 2, "c": 3, "z": 10, "y": 24, "x": 37}


def _image(path, names, **options):
    values = np.random.default_rng(1).integers(0, 60000, [SIZES[n] for n in names]).astype("uint16")
    cw.downsample_pyramid(
        cw.array(values), path, axes=list(names), units=[UNITS[n] for n in names], levels=2, **options
    ).result()
    return values


def _copy(*arguments):
    return main(["cp", "-r", "--quiet", *map(str, arguments)])


@pytest.mark.each_once
@pytest.mark.parametrize("convention", ["n5-viewer", "cosem"])
@pytest.mark.parametrize("chosen", [[], ["--layout", "ome-zarr"]])
def test_pyramids_of_n5(tmp_path, convention, chosen):
    """All levels, with x last, in shards; names of files of OME-Zarr; other attributes stay."""
    values = _image(tmp_path / "em.n5", "zyx", convention=convention, chunks=[8, 8, 5])
    source = cw.open_multiscale(tmp_path / "em.n5")
    attributes = json.loads((tmp_path / "em.n5/attributes.json").read_text())
    (tmp_path / "em.n5/attributes.json").write_text(json.dumps({**attributes, "microscope": "one"}))
    assert _copy(tmp_path / "em.n5", tmp_path / "em.zarr", "--shard", "10,16,16", "--verify", *chosen) == 0
    yaozarrs.validate_zarr_store(str(tmp_path / "em.zarr"))
    image = cw.open_multiscale(tmp_path / "em.zarr")
    assert image.convention == "ome-ngff-0.5" and image.paths == ("0", "1", "2")
    assert image.scales == tuple(scale[::-1] for scale in source.scales)
    assert image.translations == tuple(at[::-1] for at in source.translations)
    for level, expected in zip(image.levels, source.levels, strict=True):
        np.testing.assert_array_equal(level, np.asarray(expected).T)
        assert level.chunk_layout.write_chunk.shape == (10, 16, 16)
    np.testing.assert_array_equal(image.levels[0], values)
    group = json.loads((tmp_path / "em.zarr/zarr.json").read_text())["attributes"]
    assert set(group) == {"microscope", "ome"}
    assert _copy(tmp_path / "em.zarr", tmp_path / "back.n5", "--layout", "n5-viewer") == 0
    back = cw.open_multiscale(tmp_path / "back.n5")
    assert (back.scales, back.translations) == (source.scales, source.translations)


@pytest.mark.each_once
@pytest.mark.parametrize("layout", ["n5-viewer", "paintera", "bdv"])
@pytest.mark.parametrize("names", ["czyx", "tczyx"])
def test_channels_and_times_are_axes_again(tmp_path, layout, names):
    values = _image(tmp_path / "a.zarr", names, chunks=[{"t": 1, "c": 1}.get(n, 8) for n in names])
    group = cw.open_group(tmp_path / "a.zarr", "r+")
    channels = [
        {"label": n, "color": "00FF00", "window": {"min": 0, "max": 9, "start": 0, "end": 9}} for n in "abc"
    ]
    group.attrs["ome"] = {**group.attrs["ome"], "omero": {"channels": channels}}
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5", "--layout", layout) in (0, 3)
    assert _copy(tmp_path / "b.n5", tmp_path / "c.zarr", "--shard", "16,16,16") == 0
    yaozarrs.validate_zarr_store(str(tmp_path / "c.zarr"))
    image, source = cw.open_multiscale(tmp_path / "c.zarr"), cw.open_multiscale(tmp_path / "a.zarr")
    assert [axis.name for axis in image.axes] == list(names) and image.channels == source.channels
    np.testing.assert_array_equal(image.levels[0], values)
    for k, level in enumerate(image.levels):
        np.testing.assert_array_equal(level, source.levels[k])
        assert image.scales[k][-3:] == source.scales[k][-3:]
        assert level.chunk_layout.write_chunk.shape[-3:] == (16, 16, 16)


def test_setups_that_differ_are_images_of_their_own(tmp_path):
    for n, size in ((0, 8), (1, 12)):
        values = np.full((4, size, 10), n + 1, "u2")
        cw.create_array(tmp_path / f"a.n5/setup{n}/timepoint0/s0", values.T, format="n5")
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr") == 0
    for n, size in ((0, 8), (1, 12)):
        image = cw.open_multiscale(tmp_path / f"b.zarr/setup{n}")
        assert image.levels[0].shape == (4, size, 10) and np.all(np.asarray(image.levels[0]) == n + 1)


def test_a_plan_a_copy_that_is_there_and_its_replacement(tmp_path, capsys):
    _image(tmp_path / "a.n5", "zyx")
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr", "--dry-run") == 0
    assert "3 arrays" in capsys.readouterr().out and not (tmp_path / "b.zarr").exists()
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr") == 0
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr") == 1
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr", "--resume") == 0
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr", "--overwrite", "--format", "zarr3") == 0
    assert (
        cw.open_multiscale(tmp_path / "b.zarr").levels[2].shape
        == cw.open_multiscale(tmp_path / "a.n5").levels[2].shape[::-1]
    )


def test_shards_that_do_not_fit_are_refused_before_anything_is_written(tmp_path, capsys):
    _image(tmp_path / "a.n5", "zyx", chunks=[8, 8, 5])
    assert _copy(tmp_path / "a.n5", tmp_path / "b.zarr", "--shard", "7,7,7") == 1
    assert "can't be divided" in capsys.readouterr().err and not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize(
    ("levels", "beside"),
    [
        ("a.n5", "notes"),
        ("a.n5/c0", "c0/notes"),
        ("a.n5/setup0/timepoint0", "setup1/mask"),
        ("a.zarr", "notes"),
        ("a.zarr", "full/notes"),
        ("a.zarr", "full/deep/notes"),
    ],
)
def test_what_lies_beside_an_image_stays_a_tree(tmp_path, capsys, levels, beside):
    """A group that is an image and more, at any depth, is a tree; --layout names what it leaves."""
    source, inner = tmp_path / levels.partition("/")[0], beside.rpartition("/")[0]
    if source.suffix == ".n5":
        _image(tmp_path / levels, "zyx", convention="n5-viewer")
    else:
        _image(source, "zyx", convention="ome-ngff-0.4")
        if inner:
            cw.create_group(source / inner, format="zarr2")
            (source / "0").rename(source / inner / "0")
            document = json.loads((source / ".zattrs").read_text())
            document["multiscales"][0]["datasets"][0]["path"] = f"{inner}/0"
            (source / ".zattrs").write_text(json.dumps(document))
    cw.create_array(source / beside, np.arange(3), format="n5" if source.suffix == ".n5" else "zarr2")
    told = 3 if source.suffix == ".n5" else 0
    assert _copy(source, tmp_path / "b.zarr", "--format", "zarr3") == told
    np.testing.assert_array_equal(cw.open_array(tmp_path / f"b.zarr/{beside}"), np.arange(3))
    if levels.count("/") < 2:
        assert _copy(source, tmp_path / "c.zarr", "--layout", "ome-zarr", "--format", "zarr3") == 3
        assert f"{beside}: is left out" in capsys.readouterr().err


def test_versions_and_tiff(tmp_path):
    values = _image(tmp_path / "a.zarr", "zyx", convention="ome-ngff-0.4")
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.zarr", "--format", "zarr3") == 0
    assert cw.open_multiscale(tmp_path / "b.zarr").convention == "ome-ngff-0.5"
    np.testing.assert_array_equal(cw.open_multiscale(tmp_path / "b.zarr").levels[0], values)
    tifffile.imwrite(tmp_path / "a.ome.tif", values, metadata={"axes": "ZYX", "PhysicalSizeZ": 2.0})
    assert (
        _copy(tmp_path / "a.ome.tif", tmp_path / "c.zarr", "--layout", "ome-zarr", "--format", "zarr3") == 0
    )
    image = cw.open_multiscale(tmp_path / "c.zarr")
    assert image.convention == "ome-ngff-0.5" and image.scales[0] == (2.0, 1.0, 1.0)


def test_label_multisets_become_labels(tmp_path):
    blocks = {"dimensions": [4, 2, 2], "block_size": [2, 2, 2], "data_type": "uint8"}
    path = tmp_path / "a.n5"
    cw.create_n5_blocks(path / "data/s0", attributes={"isLabelMultiset": True}, **blocks)
    cw.open_label_multisets(path / "data/s0")[1, 0, 0] = [[7, 3], [8, 5]]
    cw.open_label_multisets(path / "data/s0")[0, 0, 0] = [[9, 2], [6, 2]]
    for group, attributes in (("", {"painteraData": {"type": "label"}}), ("data", {"multiScale": True})):
        file = path / group / "attributes.json"
        known = json.loads(file.read_text()) if file.exists() else {"n5": "2.0.0"}
        file.write_text(json.dumps({**known, **attributes}))
    assert _copy(path, tmp_path / "b.zarr") == 0
    image = cw.open_multiscale(tmp_path / "b.zarr")
    assert image.is_labels and image.levels[0][0, 0, :2].read().result().tolist() == [6, 8]
    assert main(["view", str(path), "--headless", str(tmp_path / "a.png")]) == 0


@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "n5-viewer"])
def test_sizes_without_names_in_a_tree_of_one_rank(tmp_path, capsys, convention):
    """They are for all levels of an image; where an array has other dimensions nothing is written."""
    source = tmp_path / ("a.n5" if convention == "n5-viewer" else "a.zarr")
    _image(source, "zyx", convention=convention, chunks=[10, 12, 12])
    target = tmp_path / f"b{source.suffix}"
    assert _copy(source, target, "--chunk", "5,8,4", "--verify") == 0
    image = cw.open_multiscale(target)
    assert [level.chunk_layout.read_chunk.shape for level in image.levels] == [(5, 8, 4)] * 3
    cw.open_group(source, "r+").create_array("times", [1.0, 2.0])
    assert _copy(source, tmp_path / f"c{source.suffix}", "--chunk", "5,8,4") == 1
    assert "times: chunks: expected one size for each of 1 dimensions" in capsys.readouterr().err
    assert not (tmp_path / f"c{source.suffix}").exists()
