"""Levels of pyramids: their values, where their voxels lie, and how they are chosen."""

import json
from itertools import pairwise

import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.images.multiscale.metadata import ImageAxis
from chunkwise.images.pyramid.plan import choose_factors, first_level, next_level

CONVENTIONS = ("ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem")
DRIVERS = {"ome-ngff-0.5": "zarr3", "ome-ngff-0.4": "zarr", "n5-viewer": "n5", "cosem": "n5"}


def _image(shape, dtype="uint16", seed=0):
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def _by_peer(convention, path):
    spec = {"driver": DRIVERS[convention], "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, read=True).result()


@pytest.mark.each_once
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("method", ["mean", "median", "max", "stride"])
def test_each_level_is_the_one_before_downsampled(tmp_path, convention, method):
    """TensorStore opens every level, and downsamples each to what the next one holds."""
    image = _image((37, 50, 41))
    path = tmp_path / "image"
    made = ts.downsample_pyramid(
        ts.array(image), path, convention=convention, method=method, chunks=[16, 16, 8], levels=2
    ).result()
    levels = [_by_peer(convention, path / name) for name in made.names]
    expected = image if "ngff" in convention else image.T
    assert np.array_equal(levels[0].read().result(), expected)
    for before, level in pairwise(levels):
        smaller = tensorstore.downsample(before, [2, 2, 2], method)
        assert smaller.shape == level.shape
        assert np.array_equal(smaller.read().result(), level.read().result())
    assert [level.shape for level in made.levels] == [level.shape for level in levels]


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_voxels_lie_where_their_means_are(data):
    """Of an image of coordinates the mean of a whole cell is the coordinate that the metadata gives."""
    rank = data.draw(st.integers(1, 3))
    shape = [data.draw(st.integers(1, 30)) for _ in range(rank)]
    origin = [data.draw(st.integers(-20, 20)) for _ in range(rank)]
    sizes = [data.draw(st.sampled_from([1.0, 0.5, 4.0, 40.0])) for _ in range(rank)]
    axes = [ImageAxis(name, "space", size) for name, size in zip("xyz", sizes, strict=False)]
    level = first = first_level(shape, origin, axes)
    coordinates = [ts.array((np.arange(n) + o) * s) for n, o, s in zip(shape, origin, sizes, strict=True)]
    for _ in range(data.draw(st.integers(1, 3))):
        step = [data.draw(st.integers(1, 3)) for _ in range(rank)]
        level = next_level(first, level, step, centred=True)
        coordinates = [
            ts.array(ts.downsample(c, [f], "mean").read().result())
            for c, f in zip(coordinates, step, strict=True)
        ]
        for d in range(rank):
            values = coordinates[d].read().result()
            assert level.shape[d] == len(values)
            whole = shape[d] // level.factors[d]
            there = level.translation[d] + level.scale[d] * np.arange(whole)
            assert np.allclose(values[:whole], there)


def test_voxels_become_cubes():
    """Where z is sampled more coarsely, x and y are halved alone until they have caught up."""
    axes = [ImageAxis("z", "space", 40.0, "nm"), *(ImageAxis(n, "space", 4.0, "nm") for n in "yx")]
    first = first_level((200, 4000, 4000), (0, 0, 0), axes)
    steps = choose_factors(first, axes, (64, 64, 64), None, 5)
    assert steps == [(1, 2, 2)] * 3 + [(2, 2, 2)] * 2


def test_default_levels_end_with_one_chunk():
    axes = [ImageAxis("c", "channel"), *(ImageAxis(n, "space") for n in "yx")]
    first = first_level((3, 1000, 900), (0, 0, 0), axes)
    steps = choose_factors(first, axes, (1, 256, 256), None, None)
    assert steps == [(1, 2, 2)] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": [2, 2]}, "expected 3 numbers"),
        ({"factors": [2, 0, 2]}, "positive"),
        ({"factors": [[2, 2, 2]], "levels": 2}, "1 levels, not for 2"),
        ({"levels": -1}, "expected 0 to"),
        ({"method": "average"}, "method: expected one of"),
        ({"labels": True, "method": "mean"}, "would make new ones"),
        ({"axes": ["x", "y"]}, "expected 3 values"),
        ({"axes": ["x", "y", "y"]}, "unique"),
        ({"axes": ["t", "time", "x"]}, "2 or 3 axes of space"),
        ({"axes": ["c", "t", "x"]}, "2 or 3 axes of space"),
        ({"units": ["1 um", "-1 um", "1 um"]}, "positive size"),
        ({"convention": "ngff"}, "expected one of"),
        ({"convention": "n5-viewer", "axes": ["c", "y", "x"]}, "axes of space"),
        ({"convention": "n5-viewer", "units": ["1 um", "1 s", "1 nm"]}, "one unit"),
        ({"chunks": [8, 8]}, "chunks: expected one size for each of 3"),
        ({"shards": [16, 16]}, "shards: expected one size for each of 3"),
        ({"shards": [16, 16, 17], "chunks": [8, 8, 8]}, "can't be divided"),
        ({"convention": "cosem", "shards": [16, 16, 16]}, "has no shards"),
        ({"codec": "zip"}, "not known"),
        ({"resume": True, "overwrite": True}, "choose one"),
    ],
)
def test_wrong_options_are_told_before_anything_is_written(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ts.downsample_pyramid(ts.array(_image((8, 9, 10))), tmp_path / "image", **options)
    assert not (tmp_path / "image").exists()


def test_labels_aren_t_mixed(tmp_path):
    """By mode, every label of a level is one of those of the level before, and groups list their labels."""
    labels = np.kron(_image((8, 8, 8)), np.ones((4, 4, 4))).astype("uint32")
    for convention, document in (("ome-ngff-0.5", "zarr.json"), ("ome-ngff-0.4", ".zattrs")):
        image = tmp_path / convention
        ts.downsample_pyramid(ts.array(_image((32,) * 3)), image, convention=convention).result()
        for name in ("cells", "nuclei"):
            made = ts.downsample_pyramid(
                ts.array(labels), image / "labels" / name, convention=convention, labels=True, levels=3
            ).result()
            for level, before in zip(made.levels[1:], made.levels, strict=False):
                assert set(np.unique(level)) <= set(np.unique(before))
            assert np.array_equal(made.levels[2].read().result(), labels[::4, ::4, ::4])
        listed = json.loads((image / "labels" / document).read_text())
        own = json.loads((image / "labels" / "cells" / document).read_text())
        if document == "zarr.json":
            listed, own = listed["attributes"]["ome"], own["attributes"]["ome"]
        assert listed["labels"] == ["cells", "nuclei"]
        assert own["image-label"]["source"] == {"image": "../../"}
        assert own["multiscales"][0]["type"] == "mode"


def test_labels_that_aren_t_integers(tmp_path):
    with pytest.raises(ValueError, match="must be integers"):
        ts.downsample_pyramid(ts.array(np.zeros((4, 4), "f4")), tmp_path / "l", labels=True)


def test_dimensions_are_put_in_order(tmp_path):
    """By name, whatever the order in the source: t, c, z, y, x in Zarr, the reverse in N5."""
    image = _image((5, 2, 6, 3, 4))
    store = ts.array(image).label["x", "c", "z", "time", "y"]
    made = ts.downsample_pyramid(store, tmp_path / "a.zarr", levels=1).result()
    assert made.levels[0].domain.labels == ("time", "c", "z", "y", "x")
    assert made.factors[1] == (1, 1, 2, 2, 2)
    assert np.array_equal(made.levels[0].read().result(), image.transpose(3, 1, 2, 4, 0))
    made = ts.downsample_pyramid(store, tmp_path / "a.n5", convention="cosem", levels=1).result()
    assert made.levels[0].domain.labels == ("x", "y", "z", "c", "time")
    assert np.array_equal(made.levels[0].read().result(), image.transpose(0, 4, 2, 1, 3))


def test_names_follow_the_order_in_memory(tmp_path):
    """Of dimensions without a name the one whose elements lie together is x."""
    image = _image((4, 5, 6))
    for source, shape in ((image, (4, 5, 6)), (np.asfortranarray(image), (6, 5, 4))):
        made = ts.downsample_pyramid(ts.array(source), tmp_path / f"{shape[0]}.zarr", levels=0).result()
        assert made.levels[0].domain.labels == ("z", "y", "x")
        assert made.levels[0].shape == shape
