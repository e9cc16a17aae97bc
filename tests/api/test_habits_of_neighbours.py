"""What users of other libraries hand over: it works, or the error says what to write, and that works."""

import json
from typing import Any

import h5py
import kerchunk.hdf
import numpy as np
import pytest
import tensorstore
import xarray as xr
import yaozarrs
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import LossWarning, OptionError

VALUES = np.arange(2 * 6 * 8, dtype="u2").reshape(2, 6, 8)


@pytest.mark.parametrize(
    "use", [np.asarray, list, lambda f: f[0], lambda f: f[...], lambda f: np.sum(f), lambda f: f[1:][0]]
)
def test_a_future_is_no_array(use, tmp_path):
    """NumPy would make an array of one object of it."""
    future = cw.open(cw.create_array(tmp_path / "a", VALUES).spec())
    with pytest.raises(TypeError, match=r"future\.result\(\)"):
        use(future)
    assert future and future.result().shape == VALUES.shape


@pytest.fixture
def references(tmp_path):
    xr.Dataset({"t": (("y", "x"), VALUES[0])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    path = tmp_path / "refs.json"
    path.write_text(json.dumps(kerchunk.hdf.SingleHdf5ToZarr(str(tmp_path / "a.nc")).translate()))
    return path


DOORS: dict[str, Any] = {
    "open_group": lambda path, to: cw.open_group(path)["t"].read().result(),
    "open_dataset": lambda path, to: xr.open_dataset(path, engine="chunkwise").t.values,
    "copy_tree": lambda path, to: cw.copy_tree(path, to) and cw.read(to / "t"),
    "Group.copy": lambda path, to: cw.create_group(to).copy(cw.open_group(path), "g") and cw.read(to / "g/t"),
}


@pytest.mark.parametrize("door", DOORS)
def test_what_opens_what_references_are_about(door, references, tmp_path):
    with pytest.raises(ValueError, match="as kerchunk writes them") as caught:
        DOORS[door](references, tmp_path / "no.zarr")
    place = str(caught.value).split('"')[1]
    np.testing.assert_array_equal(DOORS[door](place, tmp_path / "to.zarr"), VALUES[0])


@pytest.mark.parametrize("call", [cw.open_group, cw.open_array, lambda g: cw.copy_tree(g, "x.zarr")])
def test_groups_of_h5py_have_a_place(call, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/x"] = VALUES
        with pytest.raises(TypeError) as caught:
            call(file["g"])
    place = str(caught.value).split('"')[1]
    np.testing.assert_array_equal(cw.open_group(place)["x"], VALUES)


@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4"])
def test_coordinates_name_channels(convention, tmp_path):
    coordinates = {"c": ["DAPI", "GFP"], "y": np.arange(6) * 0.5, "x": np.arange(8) * 0.5}
    image = xr.DataArray(VALUES, dims=("c", "y", "x"), coords=coordinates)
    cw.downsample_pyramid(image, tmp_path / "i.zarr", levels=1, convention=convention).result()
    yaozarrs.validate_zarr_store(str(tmp_path / "i.zarr"))
    assert [channel.label for channel in cw.open_multiscale(tmp_path / "i.zarr").channels] == ["DAPI", "GFP"]
    odd = image.rename(c="t").assign_coords(t=np.array(["2020", "2021"], "M8[ns]"))
    with pytest.warns(LossWarning, match="coordinates of t are left out: they are no numbers"):
        cw.downsample_pyramid(odd, tmp_path / "t.zarr", levels=1).result()


def _volume(path):
    spec = {"driver": "neuroglancer_precomputed", "kvstore": {"driver": "file", "path": f"{path}/"}}
    spec["multiscale_metadata"] = {"type": "image", "data_type": "uint16", "num_channels": 1}
    spec["scale_metadata"] = {"resolution": [4, 4, 40], "size": [8, 6, 2], "encoding": "raw"}
    tensorstore.open({**spec, "create": True}).result()[...] = VALUES.T[..., None]
    info = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps({**info, "mesh": "mesh", "segment_properties": "props"}))
    return path


@pytest.mark.parametrize(
    "flags",
    [["--format", "zarr3"], ["--format", "zarr2"], ["--format", "n5", "--layout", "n5-viewer"], ["pyramid"]],
)
def test_what_lies_beside_a_volume_is_named(flags, tmp_path, capsys):
    command = ["pyramid", "--levels", "0"] if flags == ["pyramid"] else ["cp", "-r", *flags]
    name = "o.n5" if "n5" in flags else "o.zarr"
    assert main([*command, str(_volume(tmp_path / "v")), str(tmp_path / name), "--quiet"]) == 3
    told = capsys.readouterr().err
    assert "mesh of info is left out" in told and "segment_properties of info is left out" in told


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_setups_that_differ_are_a_collection(format, tmp_path):
    for number in (0, 1):
        at = tmp_path / "a.n5" / f"setup{number}"
        cw.create_array(at / "timepoint0/s0", VALUES[:, : 6 - number].T, format="n5", chunks=False)
        (at / "attributes.json").write_text('{"downsamplingFactors": [[1, 1, 1]]}')
    assert (
        main(["cp", "-r", str(tmp_path / "a.n5"), str(tmp_path / "o.zarr"), "--format", format, "--quiet"])
        == 0
    )
    yaozarrs.validate_zarr_store(str(tmp_path / "o.zarr" / ("" if format == "zarr3" else "setup0")))
    images = cw.open_multiscale(tmp_path / "o.zarr")
    assert list(images) == ["setup0", "setup1"] and images["setup1"].levels[0].shape == (2, 5, 8)
    assert zarr.open_group(tmp_path / "o.zarr", mode="r")["setup0/0"].shape == VALUES.shape


@pytest.mark.parametrize("call", ["copy", "downsample_pyramid", "copy of z, y, x"])
def test_sizes_of_a_volume_in_the_order_of_its_axes(call, tmp_path):
    array = cw.array(VALUES.T).label["x", "y", "z"]
    volume = {"format": "neuroglancer_precomputed"}
    if call == "downsample_pyramid":
        made = {"convention": "neuroglancer_precomputed", "units": ["4 nm"] * 3, "levels": 0}
        cw.downsample_pyramid(array, tmp_path / "v", chunks=(8, 3, 2), **made).result()
    elif call == "copy":
        cw.copy(array, tmp_path / "v", chunks=(8, 3, 2), **volume)
    else:  # it may be meant either way
        with pytest.raises(OptionError, match=r'chunks: give sizes by axis, .*"x": 64'):
            cw.copy(array.transpose([2, 1, 0]), tmp_path / "v", chunks=(8, 3, 2), **volume)
        return
    assert json.loads((tmp_path / "v/info").read_text())["scales"][0]["chunk_sizes"] == [[8, 3, 2]]
