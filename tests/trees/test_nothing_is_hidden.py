"""An array takes the place of nothing, and nothing is made inside an array."""

import json
import re

import numpy as np
import pytest
import xarray
import z5py
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError
from chunkwise.xarray import write_dataset

IMAGE = np.arange(99).reshape(9, 11) % 7
FORMATS = ("zarr3", "zarr2", "n5")
CONVENTIONS = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}


def files(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


def source(tmp_path):
    """Return the path of a small array."""
    cw.create_group(tmp_path / "one.zarr", format="zarr3").create_array("a", data=IMAGE)
    return tmp_path / "one.zarr" / "a"


def lab_by_chunkwise(path):
    cw.create_group(path, format="n5").create_array("em/s0", data=np.arange(12).reshape(3, 4))


def lab_by_z5py(path):
    with z5py.File(str(path), "w") as lab:
        lab.create_dataset("em/s0", data=np.arange(12).reshape(3, 4), chunks=(2, 2))


def lab_without_documents(path):
    lab_by_chunkwise(path)
    for group in (path, path / "em"):
        (group / "attributes.json").unlink()


@pytest.fixture(params=[lab_by_chunkwise, lab_by_z5py, lab_without_documents])
def lab(request, tmp_path):
    request.param(tmp_path / "lab.n5")
    return tmp_path / "lab.n5"


def ways_to_make(tmp_path, place):
    """Yield every way to make an N5 array at `place`."""
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(place)}, "metadata": {"blockSize": [2]}}
    yield "open", lambda: cw.open(spec, create=True, dtype="int64", shape=[3]).result()
    yield "open or create", lambda: cw.open(spec, open=True, create=True, dtype="int64", shape=[3]).result()
    yield "blocks", lambda: cw.create_n5_blocks(place, dimensions=[8], block_size=[4], data_type="uint8")


@pytest.mark.parametrize("below", ["", "em"])
def test_an_n5_array_takes_no_groups_place(tmp_path, lab, below, capsys):
    place = lab / below
    before = files(lab)
    from_place = str(source(tmp_path))
    for name, make in ways_to_make(tmp_path, place):
        with pytest.raises((AlreadyExistsError, FailedPreconditionError)) as failure:
            make()
        assert isinstance(failure.value, AlreadyExistsError), name
    assert main(["cp", from_place, str(place)]) == 1
    assert re.search(
        r"is a group already|is a directory that isn.t empty|is there already|already exists",
        capsys.readouterr().err,
    )
    assert main(["cp", "--overwrite", from_place, str(place)]) == 1
    assert main(["create", str(place), "--shape", "4", "--dtype", "uint8", "--format", "n5"]) == 1
    if below:
        for overwrite in (False, True):
            with pytest.raises((AlreadyExistsError, FailedPreconditionError), match=r"group|directory"):
                cw.open_group(lab, "r+").create_array("em", data=[1], overwrite=overwrite)
    assert files(lab) == before


def test_delete_existing_deletes_the_group(tmp_path, lab):
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(lab / "em")}}
    cw.open(spec, create=True, delete_existing=True, dtype="int64", shape=[3]).result()[...] = [4, 5, 6]
    assert cw.open(str(lab / "em")).result().read().result().tolist() == [4, 5, 6]
    assert not (lab / "em/s0").exists()


def test_the_attributes_of_a_group_are_not_mixed_with_those_of_an_array(tmp_path):
    """BDV's ``setup0`` has attributes with names of a dataset's, and may be empty as yet."""
    group = cw.create_group(tmp_path / "x.n5", format="n5")
    group.create_group("setup0", attributes={"dataType": "uint16", "downsamplingFactors": [[1, 1, 1]]})
    with pytest.raises(AlreadyExistsError):
        group.create_array("setup0", data=[1])
    for _, make in ways_to_make(tmp_path, tmp_path / "x.n5/setup0"):
        with pytest.raises(AlreadyExistsError):
            make()
    assert dict(group["setup0"].attrs)["dataType"] == "uint16"


def test_an_empty_container_can_be_a_dataset(tmp_path, capsys):
    for number, (_, make) in enumerate(ways_to_make(tmp_path, tmp_path / "x.n5")):
        cw.create_container(tmp_path / "x.n5")
        make()
        document = json.loads((tmp_path / "x.n5/attributes.json").read_text())
        assert document["n5"] == "2.0.0" and "dimensions" in document, number
        (tmp_path / "x.n5/attributes.json").unlink()
    cw.create_container(tmp_path / "x.n5")
    assert main(["cp", str(source(tmp_path)), str(tmp_path / "x.n5")]) == 0
    assert np.array_equal(cw.open(str(tmp_path / "x.n5")).result().read().result(), IMAGE)


@pytest.mark.each_once
@pytest.mark.parametrize("inner", FORMATS)
@pytest.mark.parametrize("outer", (*FORMATS, "zarr1"))
def test_nothing_is_made_inside_an_array(tmp_path, outer, inner, capsys):
    if outer == "zarr1":
        spec = {"driver": "zarr1", "kvstore": {"driver": "file", "path": str(tmp_path / "outer")}}
        cw.open(spec, create=True, dtype="uint8", shape=[3]).result()[...] = 1
        array = tmp_path / "outer"
    else:
        cw.create_group(tmp_path / "outer", format=outer).create_array("a", data=[1, 2])
        array = tmp_path / "outer/a"
    before = files(array)
    from_place = source(tmp_path)
    for place in (array / "inside", array / "b/c/inside"):
        for arguments in (
            ["cp", from_place, place, "--format", inner],
            ["cp", "-r", from_place.parent, place, "--format", inner],
            ["create", place, "--shape", "4", "--dtype", "uint8", "--format", inner],
            ["pyramid", from_place, place, "--convention", CONVENTIONS[inner]],
        ):
            assert main([str(argument) for argument in arguments]) != 0
            assert "is an array; nothing can be below it" in capsys.readouterr().err, arguments
        for mode in ("a", "w", "w-"):
            with pytest.raises(AlreadyExistsError, match="nothing can be below it"):
                cw.open_group(place, mode, format=inner)
    assert main(["cp", str(array), str(array / "inside")]) == 1
    assert files(array) == before


def test_a_group_that_is_made_anew_may_be_where_an_array_is(tmp_path):
    source(tmp_path)
    group = cw.create_group(tmp_path / "one.zarr/a", overwrite=True)
    group.create_array("b", data=[1])
    assert zarr.open_group(str(tmp_path / "one.zarr"), mode="r")["a/b"][:].tolist() == [1]


@pytest.mark.parametrize("format", FORMATS)
def test_a_variable_takes_no_groups_place(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format)
    group.create_array("em/s0", data=[1, 2])
    before = files(tmp_path / "x")
    with pytest.raises(AlreadyExistsError, match="is a group"):
        write_dataset(xarray.Dataset({"em": ("t", [1.0])}), tmp_path / "x", mode="a")
    assert files(tmp_path / "x") == before


NUMBERS = ("²", "a²", "٣", "007", "1_0", "7" * 30)


@pytest.mark.parametrize("format", FORMATS)
def test_names_of_digits_that_are_no_numbers_of_chunks(tmp_path, format, capsys):
    """They are names as others, also in sorted lists, and an N5 array is not made around their groups."""
    group = cw.create_group(tmp_path / "g", format=format)
    for name in NUMBERS:
        group.create_array(name, data=IMAGE)
    assert {report.name for report in cw.verify(tmp_path / "g")} == {"", *NUMBERS}
    for command in ("tree", "info"):
        assert main([command, str(tmp_path / "g")]) == 0
    assert main(["cp", "-r", str(tmp_path / "g"), str(tmp_path / "copy")]) == 0
    assert set(cw.open_group(tmp_path / "copy")) == set(NUMBERS)
    assert cw.diff(tmp_path / "g", tmp_path / "copy") == []
    for n, name in enumerate(NUMBERS):
        place = tmp_path / f"plain{n}"
        cw.create_group(place / name, format="n5")
        (place / "attributes.json").unlink(missing_ok=True)
        for way, make in ways_to_make(tmp_path, place):
            with pytest.raises((AlreadyExistsError, FailedPreconditionError)):
                make()
            assert not (place / "attributes.json").exists(), (name, way)
