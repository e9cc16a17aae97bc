"""Metadata of a pyramid for viewers and other software."""

import json

import numpy as np
import pytest
import tensorstore
import yaozarrs
import zarr

import chunkwise as ts


def _image(*shape):
    return np.random.default_rng(0).integers(0, 200, shape).astype("uint8")


def _json(path):
    return json.loads(path.read_text())


@pytest.mark.each_once
@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4"])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_ngff_is_valid(tmp_path, convention, rank):
    """Another implementation's models accept the metadata, and zarr-python reads the arrays that it names."""
    shape, names = (3, 2, 20, 30, 40)[-rank:], "tczyx"[-rank:]
    units = ["2 s", None, "0.4 µm", "40 nm", "40 nm"][-rank:]
    image = _image(*shape)
    path = tmp_path / "image.ome.zarr"
    made = ts.downsample_pyramid(
        ts.array(image),
        path,
        convention=convention,
        axes=list(names),
        units=units,
        chunks=[1, 1, 8, 8, 8][-rank:],
    ).result()
    assert len(made.levels) > 1
    if convention == "ome-ngff-0.5":
        yaozarrs.validate_zarr_store(str(path))
        own = _json(path / "zarr.json")["attributes"]["ome"]
        assert own["version"] == "0.5"
    else:
        own = _json(path / ".zattrs")
        assert own["multiscales"][0]["version"] == "0.4"
    yaozarrs.validate_ome_object(own)
    (multiscale,) = own["multiscales"]
    assert multiscale["name"] == "image"
    assert [axis["name"] for axis in multiscale["axes"]] == list(names)
    assert {axis.get("unit") for axis in multiscale["axes"]} <= {"second", None, "micrometer", "nanometer"}
    group = zarr.open_group(path, mode="r")
    for dataset, level, factors in zip(multiscale["datasets"], made.levels, made.factors, strict=True):
        array = group[dataset["path"]]
        assert np.array_equal(array[...], level.read().result())
        if convention == "ome-ngff-0.5":
            assert array.metadata.dimension_names == tuple(names)
        else:
            assert array.metadata.dimension_separator == "/"
        scale, translation = dataset["coordinateTransformations"]
        sizes = [2.0, 1.0, 0.4, 40.0, 40.0][-rank:]
        assert np.allclose(scale["scale"], np.multiply(sizes, factors))
        assert np.allclose(translation["translation"], np.multiply(sizes, np.subtract(factors, 1)) / 2)


def test_shards(tmp_path):
    image = _image(40, 50, 60)
    made = ts.downsample_pyramid(
        ts.array(image),
        tmp_path / "a.zarr",
        chunks=[8, 8, 8],
        shards=[32, 32, 32],
        codec="blosc:lz4:5",
        levels=1,
    ).result()
    for level in made.levels:
        assert level.chunk_layout.read_chunk.shape == (8, 8, 8)
        assert level.chunk_layout.write_chunk.shape == (32, 32, 32)
    assert np.array_equal(zarr.open_array(tmp_path / "a.zarr" / "0", mode="r")[...], image)


NM = {"unit": "nm", "dimensions": [4.0, 4.0, 40.0]}
IMAGE = {"axes": ["z", "y", "x"], "units": ["40 nm", "4 nm", "4 nm"], "factors": [2, 2, 1], "levels": 1}


def test_n5_viewer(tmp_path):
    """The voxel size of full resolution is at every level, with the factors to multiply it by."""
    path = tmp_path / "a.n5" / "volume"
    ts.downsample_pyramid(ts.array(_image(4, 6, 8)), path, **IMAGE).result()
    first, second = _json(path / "s0/attributes.json"), _json(path / "s1/attributes.json")
    assert first["dimensions"] == [8, 6, 4]
    assert second["dimensions"] == [4, 3, 4]
    assert first["pixelResolution"] == second["pixelResolution"] == NM
    assert "downsamplingFactors" not in first
    assert second["downsamplingFactors"] == [2, 2, 1]
    assert "resolution" not in second  # which neuroglancer would multiply
    group = _json(path / "attributes.json")
    assert group["scales"] == [[1, 1, 1], [2, 2, 1]]
    assert group["pixelResolution"] == NM
    assert (group["axes"], group["resolution"]) == (["x", "y", "z"], [4.0, 4.0, 40.0])
    assert _json(tmp_path / "a.n5/attributes.json")["n5"]
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{path}/s0/"}}
    units = tensorstore.open(spec).result().dimension_units
    assert [str(unit) for unit in units] == ["4 nm", "4 nm", "40 nm"]


def test_cosem(tmp_path):
    """Each level has its own voxel size, x first in pixelResolution and z first in the transform."""
    path = tmp_path / "a.n5" / "em"
    ts.downsample_pyramid(ts.array(_image(4, 6, 8)), path, convention="cosem", **IMAGE).result()
    transforms = [
        {"axes": ["z", "y", "x"], "scale": scale, "translate": translate, "units": ["nm"] * 3}
        for scale, translate in (([40.0, 4.0, 4.0], [0.0] * 3), ([40.0, 8.0, 8.0], [0.0, 2.0, 2.0]))
    ]
    first, second = _json(path / "s0/attributes.json"), _json(path / "s1/attributes.json")
    assert [first["transform"], second["transform"]] == transforms
    assert first["pixelResolution"] == NM
    assert second["pixelResolution"] == {"unit": "nm", "dimensions": [8.0, 8.0, 40.0]}
    assert _json(path / "attributes.json")["multiscales"] == [
        {
            "name": "em",
            "datasets": [{"path": f"s{i}", "transform": t} for i, t in enumerate(transforms)],
        }
    ]
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": f"{path}/s1/"}}
    units = tensorstore.open(spec).result().dimension_units
    assert [str(unit) for unit in units] == ["8 nm", "8 nm", "40 nm"]


def test_an_origin_becomes_a_translation(tmp_path):
    store = ts.array(_image(16, 16)).translate_to[100, -8]
    ts.downsample_pyramid(store, tmp_path / "a.zarr", units=["2 um", "2 um"], levels=1).result()
    datasets = _json(tmp_path / "a.zarr/zarr.json")["attributes"]["ome"]["multiscales"][0]["datasets"]
    translations = [d["coordinateTransformations"][1]["translation"] for d in datasets]
    assert translations == [[200.0, -16.0], [201.0, -15.0]]


def test_other_attributes_of_the_group_stay(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2, attributes={"microscope": "one"})
    group.create_group("inner")
    path = tmp_path / "a.zarr/inner/image"
    ts.downsample_pyramid(ts.array(_image(8, 8)), path, convention="ome-ngff-0.4", levels=1).result()
    assert _json(tmp_path / "a.zarr/.zattrs") == {"microscope": "one"}
    assert sorted(zarr.open_group(tmp_path / "a.zarr", mode="r")["inner/image"].array_keys()) == ["0", "1"]
