"""Copies to precomputed volumes, judged by TensorStore, which reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AlreadyExistsError, LossWarning

VALUES = np.arange(20 * 30 * 40, dtype="u2").reshape(20, 30, 40)
VOLUME = "neuroglancer_precomputed"


def _peer(path: Path, scale: int = 0) -> Any:
    spec = {"driver": VOLUME, "kvstore": {"driver": "file", "path": str(path)}, "scale_index": scale}
    return tensorstore.open(spec).result()


def _info(path: Path) -> Any:
    return json.loads((path / "info").read_text())


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "i.zarr"
    view = cw.array(VALUES).translate_to[5, 4, 100]
    units = ["40 nm", "0.004 um", "40 angstrom"]
    cw.downsample_pyramid(view, path, units=units, axes=["z", "y", "x"], levels=2, sync=False).result()
    return path


def _said(way: str, path: Path) -> tuple[Any, dict[str, Any]]:
    """Return a destination and options that say the format."""
    if way == "spec":
        return {"driver": VOLUME, "kvstore": f"file://{path}/"}, {}
    return (f"file://{path}|neuroglancer-precomputed:", {}) if way == "URL" else (path, {"format": VOLUME})


@pytest.mark.parametrize("way", ["spec", "URL", "option"])
def test_an_array_by_all_ways_to_say_the_format(tmp_path: Path, image: Path, way: str) -> None:
    to, options = _said(way, tmp_path / "v")
    report = cw.copy(image / "0", to, verify=True, **options)
    assert report.array.shape == (40, 30, 20, 1)
    volume = _peer(tmp_path / "v")
    np.testing.assert_array_equal(volume[..., 0].read().result().T, VALUES)
    assert volume.domain.inclusive_min == (100, 4, 5, 0)
    assert [str(unit) for unit in volume.dimension_units[:3]] == ["4 nm", "4 nm", "40 nm"]
    assert _info(tmp_path / "v")["type"] == "image"
    with pytest.raises(AlreadyExistsError, match="there is something at"):
        cw.copy(image / "0", to, **options)
    assert cw.copy(image / "0", to, resume=True, **options).nbytes == VALUES.nbytes


@pytest.mark.parametrize("door", ["copy_tree", "cp -r"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_an_image_with_all_levels(tmp_path: Path, image: Path, door: str, is_sharded: bool) -> None:
    out = tmp_path / "v"
    if door == "copy_tree":
        options = {"chunks": {"x": 8, "y": 8, "z": 8}, "shards": [16] * 3} if is_sharded else {}
        assert cw.copy_tree(image, out, format=VOLUME, verify=True, **options).n_arrays == 3
    else:
        words = ["--chunk", "x=8,y=8,z=8", "--shard", "16,16,16"] if is_sharded else []
        assert (
            main(["cp", "-r", str(image), str(out), "--format", VOLUME, "--quiet", "--verify", *words]) == 0
        )
    known = cw.open_multiscale(image)
    assert len(_info(out)["scales"]) == 3
    for number, level in enumerate(known.levels):
        volume = _peer(out, number)
        np.testing.assert_array_equal(volume[..., 0].read().result().T, level.read().result())
        assert [unit.multiplier for unit in volume.dimension_units[2::-1]] == pytest.approx(
            [known.scales[number][0], known.scales[number][1] * 1000, known.scales[number][2] / 10]
        )
        assert volume.domain.inclusive_min[2::-1] == level.origin
        assert ("sharding" in _info(out)["scales"][number]) == is_sharded
    assert not list(out.rglob("*chunkwise*"))


def test_labels_are_a_segmentation_and_come_back(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(8, dtype="u8") + 2**53, 64).reshape(8, 8, 8)
    path = tmp_path / "seg"
    cw.downsample_pyramid(
        cw.array(labels), path / "labels/c", labels=True, levels=1, units=["4 nm"] * 3, sync=False
    ).result()
    cw.copy_tree(path / "labels/c", tmp_path / "v", format=VOLUME)
    assert _info(tmp_path / "v")["type"] == "segmentation"
    assert _info(tmp_path / "v")["scales"][0]["encoding"] == "compressed_segmentation"
    np.testing.assert_array_equal(_peer(tmp_path / "v")[..., 0].read().result().T, labels)
    cw.copy_tree(tmp_path / "v", tmp_path / "back.zarr", format="zarr3")
    back = cw.open_multiscale(tmp_path / "back.zarr")
    assert back.is_labels and len(back.levels) == 2
    np.testing.assert_array_equal(back.levels[0].read().result().squeeze(), labels)
    cw.copy(tmp_path / "v", tmp_path / "again", format=VOLUME, codec={"encoding": "raw"})
    assert _info(tmp_path / "again")["scales"][0]["encoding"] == "raw"
    np.testing.assert_array_equal(_peer(tmp_path / "again")[..., 0].read().result().T, labels)


def test_a_region_keeps_its_place_and_channels_are_named_as_lost(tmp_path: Path, image: Path) -> None:
    out = str(tmp_path / "v")
    assert main(["cp", str(image / "0"), out, "--format", VOLUME, "--region", "2:8,:,10:20", "--quiet"]) == 0
    volume = _peer(tmp_path / "v")
    assert volume.domain.inclusive_min[:3] == (110, 4, 7)
    np.testing.assert_array_equal(volume[..., 0].read().result().T, VALUES[2:8, :, 10:20])
    colours = cw.array(np.zeros((3, 6, 8), "u1"))
    cw.downsample_pyramid(colours, tmp_path / "c.zarr", axes=["c", "y", "x"], levels=0, sync=False).result()
    cw.edit_image(tmp_path / "c.zarr", channels=["A", "B", "C"])
    with pytest.warns(LossWarning, match="channels are left out"):
        cw.copy_tree(tmp_path / "c.zarr", tmp_path / "w", format=VOLUME)
    assert _peer(tmp_path / "w").shape == (8, 6, 1, 3)
    assert (
        main(["cp", "-r", str(tmp_path / "c.zarr"), str(tmp_path / "u"), "--format", VOLUME, "--quiet"]) == 3
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fill_value": 1}, "fill_value: a precomputed volume can't have it"),
        ({"dtype": "float64"}, "float64 data type is not one of the supported"),
        ({"codec": "zstd"}, "codec: of a precomputed volume it is an encoding"),
        ({"chunks": [4, 8, 8]}, "chunks: give sizes by axis"),
        ({"keep_fingerprint": True}, "no attributes for a fingerprint"),
        ({"codec": {"encoding": "jpeg"}}, "jpeg"),
    ],
)
def test_what_it_cant_have_is_refused_by_name(tmp_path: Path, image: Path, options: Any, says: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=says):
        cw.copy(image / "0", tmp_path / "v", format=VOLUME, **options)
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_encodings_of_volumes_are_of_no_other_format(tmp_path: Path, format: str) -> None:
    with pytest.raises(ValueError, match="is an encoding of precomputed volumes"):
        cw.create_array(tmp_path / "a", shape=(4, 4), dtype="u1", format=format, codec={"encoding": "png"})


def test_what_is_refused(tmp_path: Path, image: Path) -> None:
    times = cw.array(np.zeros((3, 6, 8), "u1"))
    cw.create_array(tmp_path / "t.zarr", times, dimension_names=["t", "y", "x"])
    with pytest.raises(ValueError, match=r"x, y, z and channel, and .* also has t of 3"):
        cw.copy(tmp_path / "t.zarr", tmp_path / "v", format=VOLUME)
    assert (
        main(
            [
                "cp",
                str(tmp_path / "t.zarr"),
                str(tmp_path / "v"),
                "--format",
                VOLUME,
                "--region",
                "1,:,:",
                "--quiet",
            ]
        )
        == 0
    )
    with pytest.raises(AlreadyExistsError, match="is an array; nothing can be below it"):
        cw.copy(image / "0", tmp_path / "t.zarr/v", format=VOLUME)
    with pytest.raises(AlreadyExistsError, match="overwrite=True"):
        cw.copy(image / "0", tmp_path / "v", format=VOLUME)
    with pytest.raises(ValueError, match="its driver is"):
        cw.copy(image / "0", f"file://{tmp_path}/n|neuroglancer-precomputed:", format="n5")


def test_an_unfinished_copy_is_no_volume_and_is_resumed(tmp_path: Path, image: Path) -> None:
    def stop(nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.copy(image / "0", tmp_path / "v", format=VOLUME, progress=stop)
    assert not (tmp_path / "v/info").exists()
    with pytest.raises(ValueError, match="begun and not finished"):
        cw.copy(image / "0", tmp_path / "v", format=VOLUME)
    cw.copy(image / "0", tmp_path / "v", format=VOLUME, resume=True, verify=True)
    with pytest.raises(KeyboardInterrupt):
        cw.copy(image / "1", tmp_path / "w", format=VOLUME, progress=stop)
    cw.copy(image / "0", tmp_path / "w", format=VOLUME, overwrite=True)
    np.testing.assert_array_equal(_peer(tmp_path / "w")[..., 0].read().result().T, VALUES)
    np.testing.assert_array_equal(_peer(tmp_path / "v")[..., 0].read().result().T, VALUES)
    assert not list((tmp_path / "v").rglob("*chunkwise*"))


@pytest.mark.parametrize("door", ["downsample_pyramid", "pyramid"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_a_pyramid_of_labels_with_an_offset(tmp_path: Path, door: str, is_sharded: bool) -> None:
    """Made level by level; no label is new, and TensorStore finds each scale where it is."""
    random = np.random.default_rng(0)
    labels = np.kron(random.integers(0, 9, (8, 8, 16)), np.ones((4, 4, 4))).astype("u8") * 2**40
    view = cw.array(labels).translate_to[8, 16, 32]
    cw.downsample_pyramid(
        view,
        tmp_path / "s/labels/c",
        labels=True,
        levels=0,
        axes=["z", "y", "x"],
        units=["8 nm"] * 3,
        sync=False,
    ).result()
    source, to = tmp_path / "s/labels/c", f"file://{tmp_path}/v|neuroglancer-precomputed:"
    if door == "pyramid":
        words = ["--chunk", "16,16,16", "--shard", "32,32,32"] if is_sharded else []
        assert main(["pyramid", str(source), to, "--levels", "2", "--verify", "--dry-run", *words]) == 0
        assert not (tmp_path / "v").exists()
        assert main(["pyramid", str(source), to, "--levels", "2", "--verify", "--quiet", *words]) == 0
    else:
        options = {"chunks": [16] * 3, "shards": [32] * 3} if is_sharded else {}
        made = cw.downsample_pyramid(source, to, levels=2, verify=True, sync=False, **options).result()
        assert [level.shape for level in made.levels] == [(64, 32, 32, 1), (32, 16, 16, 1), (16, 8, 8, 1)]
        assert made.factors[1] == (2, 2, 2) and made.left_out == ()
    assert _info(tmp_path / "v")["type"] == "segmentation"
    expected = cw.array(labels)
    for number in range(3):
        volume = _peer(tmp_path / "v", number)
        values = volume[..., 0].read().result().T
        np.testing.assert_array_equal(values, expected.read().result())
        assert volume.domain.inclusive_min[:3] == (32 >> number, 16 >> number, 8 >> number)
        is_one_chunk = number == 2
        assert ("sharding" in _info(tmp_path / "v")["scales"][number]) == (is_sharded and not is_one_chunk)
        expected = cw.downsample(cw.array(expected.read().result()), [2, 2, 2], "mode")


def test_a_pyramid_of_an_image_that_is_stopped(tmp_path: Path) -> None:
    scan = cw.array(VALUES)
    options: dict[str, Any] = {"convention": VOLUME, "units": ["40 nm", "4 nm", "4 nm"], "levels": 1}

    def stop(now: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cw.downsample_pyramid(scan, tmp_path / "v", progress=stop, **options).result()
    assert not (tmp_path / "v/info").exists()
    assert json.loads((tmp_path / "v" / JOURNAL).read_text())["owner"] is None, "nobody is waited for"
    with pytest.raises(AlreadyExistsError, match="begun and not finished"):
        cw.downsample_pyramid(scan, tmp_path / "v", **options).result()
    made = cw.downsample_pyramid(scan, tmp_path / "v", resume=True, **options).result()
    assert made.convention == VOLUME and made.assumed
    np.testing.assert_array_equal(_peer(tmp_path / "v")[..., 0].read().result().T, VALUES)
    half = VALUES.reshape(20, 15, 2, 20, 2).astype("f8").mean((2, 4))
    found = _peer(tmp_path / "v", 1)[..., 0].read().result().T
    assert np.abs(found - half).max() <= 0.5
    with pytest.raises(ValueError, match="convention of its own"):
        cw.downsample_pyramid(scan, tmp_path / "w", name="x", **options)
