"""What users of other libraries hand over: it works, or the error says what to write, and that works."""

import contextlib
import datetime
import decimal
import enum
import json
import math
import operator
import os
import pathlib
import warnings
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest
import tensorstore
import tifffile
import xarray as xr
import yaozarrs
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from tests.kerchunk_references import kerchunk_references

import chunkwise as cw
from chunkwise import z5py
from chunkwise.cli.main import main
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, LossWarning, NotFoundError, OptionError
from chunkwise.xarray import write_dataset

VALUES = np.arange(2 * 6 * 8, dtype="u2").reshape(2, 6, 8)


@pytest.mark.parametrize(
    "use",
    [
        np.asarray, list, len, float, int, abs, np.sum, operator.neg, lambda f: f[0], lambda f: f[...],
        lambda f: f[1:][0], lambda f: f + 1, lambda f: 2 * f, lambda f: f @ f, lambda f: f == 3,
        lambda f: f == VALUES, lambda f: f != [1], lambda f: f < 3, lambda f: 3 in f, lambda f: VALUES + f,
        lambda f: operator.setitem(f, 0, 1), lambda f: operator.iadd(f, 1), round, complex, math.floor,
        lambda f: round(f, 2), lambda f: f"{f:.2f}", lambda f: [1, 2][f], lambda f: divmod(f, 2),
        lambda f: contextlib.ExitStack().enter_context(f),
    ],
)  # fmt: skip
def test_a_future_is_no_array(use, tmp_path):
    """NumPy would make an array of one object of it."""
    future = cw.open(cw.create_array(tmp_path / "a", VALUES).spec())
    with pytest.raises(TypeError, match=r"future\.result\(\)"):
        use(future)
    assert future and future.result().shape == VALUES.shape
    assert future == future and future in [future] and {future: 1}[future] == 1 and future != None  # noqa: E711


@pytest.fixture(params=["json", "parq"])
def references(request, tmp_path):
    xr.Dataset({"t": (("y", "x"), VALUES[0])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    found = kerchunk_references(tmp_path / "a.nc")
    path = tmp_path / f"refs.{request.param}"
    if request.param == "json":
        path.write_text(json.dumps(found))
        return path
    path.mkdir()
    table = LazyReferenceMapper.create(root=str(path), fs=fsspec.filesystem("file"), record_size=100)
    for key in sorted(found["refs"], key=lambda key: ".z" not in key):  # documents first
        table[key] = found["refs"][key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fsspec writes by a package that is being given up
        table.flush()
    return path


DOORS: dict[str, Any] = {
    "open_group": lambda path, to: cw.open_group(path)["t"].read().result(),
    "open_dataset": lambda path, to: xr.open_dataset(path, engine="chunkwise").t.values,
    "read": lambda path, to: cw.read(path),
    "open_array": lambda path, to: np.asarray(cw.open_array(path)),
    "copy_tree": lambda path, to: cw.copy_tree(path, to) and cw.read(to / "t"),
    "Group.copy": lambda path, to: cw.create_group(to).copy(cw.open_group(path), "g") and cw.read(to / "g/t"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("named", ["", "|reference:"])
def test_what_opens_what_references_are_about(door, named, references, tmp_path):
    np.testing.assert_array_equal(DOORS[door](f"{references}{named}", tmp_path / "to.zarr"), VALUES[0])


@pytest.mark.parametrize("command", ["info", "tree", "verify"])
def test_commands_take_what_references_are_about(command, references, capsys):
    assert main([command, str(references)]) == 0
    assert "array" in capsys.readouterr().out


def test_a_path_into_references_is_an_error_that_names_them(references):
    if references.is_file():
        with pytest.raises(NotFoundError, match=r"refs\.json\|reference:t") as caught:
            cw.read(references / "t")
        place = str(caught.value).split('"')[-2]
        np.testing.assert_array_equal(cw.read(place), VALUES[0])


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


class Colour(enum.Enum):
    RED = 1


TAKEN: dict[str, tuple[Any, Any]] = {
    "bytes": ("µm".encode(), "µm"),
    "bytes of NumPy": (np.bytes_(b"mV"), "mV"),
    "array of bytes": (np.array([b"a", b"bc"]), ["a", "bc"]),
    "bytes in a list": ([b"a", {"k": b"b"}], ["a", {"k": "b"}]),
    "text of NumPy": (np.str_("a"), "a"),
    "array of text": (np.array(["a", "b"]), ["a", "b"]),
    "number of NumPy": (np.float32(0.5), 0.5),
    "array of rank 0": (np.array(5), 5),
    "array": (np.arange(3), [0, 1, 2]),
    "range": (range(3), [0, 1, 2]),
    "tuple": ((1, 2), [1, 2]),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "bytes that are no text": (b"\xff", "list of numbers"),
    "bytes with a zero": (b"a\0", "list of numbers"),
    "void": (np.void(b"ab"), "list of numbers"),
    "datetime": (datetime.datetime(2020, 1, 2), r"str\(\)"),
    "date": (datetime.date(2020, 1, 2), r"str\(\)"),
    "timedelta": (datetime.timedelta(2), r"str\(\)"),
    "datetime64": (np.datetime64("2020-01-02"), r"str\(\)"),
    "array of datetime64": (np.array(["2020-01-02"], "M8[D]"), r"str\(\)"),
    "path": (pathlib.Path("a"), r"str\(\)"),
    "data type": (np.dtype("i4"), r"str\(\)"),
    "decimal": (decimal.Decimal("0.1"), r"str\(\)"),
    "type": (np.float32, "text"),
    "enumeration": (Colour.RED, "value or its name"),
    "complex": (1 + 2j, "real and imaginary"),
    "complex of NumPy": (np.complex64(1), "real and imaginary"),
    "set": ({1}, "list"),
    "record": (np.array([(1, 2.0)], [("a", "i4"), ("b", "f4")]), "dict of names"),
    "slice": (slice(1, 2), "list of start and stop"),
    "object": (object(), "text, numbers, lists"),
}
ATTRIBUTE_WRITERS: dict[str, Any] = {
    "attrs[]": lambda path, value: operator.setitem(cw.create_array(path, VALUES).attrs, "k", value),
    "attrs.update": lambda path, value: cw.create_array(path, VALUES).attrs.update({"k": value}),
    "attrs.setdefault": lambda path, value: cw.create_array(path, VALUES).attrs.setdefault("k", value),
    "create_array": lambda path, value: cw.create_array(path, VALUES, attributes={"k": value}),
    "create_group": lambda path, value: cw.create_group(path, attributes={"k": value}),
    "group.create_array": lambda path, value: cw.create_group(os.path.dirname(path)).create_array(
        os.path.basename(path), VALUES, attributes={"k": value}
    ),
    "group.attrs[]": lambda path, value: operator.setitem(cw.create_group(path).attrs, "k", value),
    "write_dataset": lambda path, value: write_dataset(xr.Dataset(attrs={"k": value}), path),
    "z5py": lambda path, value: operator.setitem(z5py.File(path, "w").attrs, "k", value),
}


@pytest.mark.parametrize("writer", ATTRIBUTE_WRITERS)
def test_attributes_take_what_has_one_meaning(writer, tmp_path):
    for name, (value, expected) in TAKEN.items():
        path = str(tmp_path / name / "a.zarr")
        ATTRIBUTE_WRITERS[writer](path, value)
        try:
            node: Any = cw.open_group(path)
        except ChunkwiseError:
            node = cw.open_array(path)
        assert node.attrs["k"] == expected, name


@pytest.mark.parametrize("writer", ATTRIBUTE_WRITERS)
def test_attributes_refuse_other_values_with_advice(writer, tmp_path):
    for name, (value, advice) in REFUSED.items():
        with pytest.raises(InvalidArgumentError, match=f'"k".*{advice}'):
            ATTRIBUTE_WRITERS[writer](str(tmp_path / name / "a.zarr"), value)


SEVERAL: dict[str, Any] = {
    "folder": lambda folder, paths: cw.read(folder),
    "glob": lambda folder, paths: cw.read(folder / "*.tif"),
    "image": lambda folder, paths: cw.open_multiscale(folder),
    "stack": lambda folder, paths: cw.stack(paths),
    "concat": lambda folder, paths: cw.concat(map(str, paths), axis=0),
    "overlay": lambda folder, paths: cw.overlay(paths),
}


@pytest.mark.filterwarnings(
    "ignore:.*left out of 2 images:UserWarning"
)  # of each file by itself, before the error
@pytest.mark.parametrize("door", SEVERAL)
def test_files_of_several_images_are_no_planes(door, tmp_path):
    paths = [tmp_path / "f" / f"z{i}.tif" for i in range(2)]
    paths[0].parent.mkdir()
    for path in paths:
        with tifffile.TiffWriter(path) as writer:
            writer.write(VALUES[0])
            writer.write(np.ones((3, 3), "u1"))
    with pytest.raises(InvalidArgumentError, match="holds 2 images") as caught:
        SEVERAL[door](tmp_path / "f", paths)
    first, second = str(caught.value).split("name one of them: ")[1].split(", ")
    np.testing.assert_array_equal(cw.stack([first, first])[1].read().result(), VALUES[0])
    assert cw.stack([second]).shape == (1, 3, 3)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_a_transform_of_cosem_places_an_array(format, tmp_path):
    transform = {
        "axes": ["z", "y", "x"],
        "units": ["nm"] * 3,
        "scale": [8.0, 4.0, 2.0],
        "translate": [5, 0, 1],
    }
    whole = cw.create_array(tmp_path / "a", VALUES, format=format, attributes={"transform": transform})
    image = cw.open_multiscale(whole)
    order = [2, 1, 0] if format == "n5" else [0, 1, 2]
    assert [image.axes[i].name for i in order] == ["z", "y", "x"] and {a.unit for a in image.axes} == {"nm"}
    assert [image.scales[0][i] for i in order] == [8, 4, 2]
    assert [image.translations[0][i] for i in order] == [5, 0, 1]
