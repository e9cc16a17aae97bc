"""Directories without a metadata document: groups in an N5 container, elsewhere only if asked for."""

import json

import numpy as np
import pytest
import tensorstore as ts
import z5py
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import FailedPreconditionError, NotFoundError, UnsupportedError


def container(path, root):
    """Make a container whose groups have no documents; `root` is the text of its own, None for none."""
    for group in ("empty", "deep/er"):
        (path / group).mkdir(parents=True)
    if root is not None:
        (path / "attributes.json").write_text(root)
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(path / "a/b")}}
    ts.open(spec, create=True, dtype=ts.uint8, shape=[5]).result()[...] = 7


VERSIONS = (
    '{"n5":"1.0.0"}',
    '{"n5":"2.5.1"}',
    '{"n5":"4.9.0-SNAPSHOT"}',
    '{"n5":4}',
    '{"n5":null}',
    "{}",
    "null",
    "",
    None,
)


@pytest.mark.parametrize("root", VERSIONS)
def test_every_directory_of_a_container_is_a_group(tmp_path, root):
    path = tmp_path / "x.n5"
    container(path, root)
    assert cw.open_group(path).keys() == ["a", "deep", "empty"]
    for name, members in (("empty", []), ("deep", ["er"]), ("deep/er", []), ("a", ["b"])):
        for options in ({}, {"format": "n5"}, {"mode": "r+"}):
            group = cw.open_group(path / name, **options)
            assert (group.format, group.implicit, group.keys()) == ("n5", True, members)
            assert group.attrs == {}
        assert main(["info", str(path / name)]) == 0
    assert cw.open_group(path / "a")["b"].read().result().tolist() == [7] * 5
    if root is not None and isinstance(json.loads(root or "[]"), dict) and '"' in root[5:]:
        peer = z5py.File(str(path), "r")
        assert all(isinstance(peer[name], z5py.Group) for name in ("empty", "deep", "a"))
    for name in ("nothing", "empty/nothing"):
        with pytest.raises(NotFoundError):
            cw.open_group(path / name)


def test_a_container_without_the_name_of_one(tmp_path):
    container(tmp_path / "data", '{"n5":"4.0.0"}')
    assert cw.open_group(tmp_path / "data/deep/er").format == "n5"


def test_a_group_in_a_container_that_is_too_new(tmp_path):
    container(tmp_path / "x.n5", '{"n5":"5.0.0"}')
    for name in ("", "empty", "deep", "a"):
        for mode in ("r", "r+"):
            with pytest.raises(UnsupportedError, match=r"5\.0\.0"):
                cw.open_group(tmp_path / "x.n5" / name, mode)


def test_attributes_make_a_document(tmp_path):
    container(tmp_path / "x.n5", '{"n5":"2.0.0"}')
    cw.open_group(tmp_path / "x.n5/empty", "r+").attrs["k"] = 1
    assert json.loads((tmp_path / "x.n5/empty/attributes.json").read_text()) == {"k": 1}
    assert main(["attrs", str(tmp_path / "x.n5/deep/er"), "set", "k", "2"]) == 0
    assert dict(z5py.File(str(tmp_path / "x.n5"), "r")["deep/er"].attrs) == {"k": 2}
    assert cw.open_group(tmp_path / "x.n5/new", "a").attrs == {}
    assert json.loads((tmp_path / "x.n5/new/attributes.json").read_text()) == {}  # the version is at the root


def test_an_empty_directory_can_become_a_dataset(tmp_path):
    container(tmp_path / "x.n5", '{"n5":"2.0.0"}')
    cw.open_group(tmp_path / "x.n5", "r+").create_array("deep/er", data=np.arange(3))
    assert z5py.File(str(tmp_path / "x.n5"), "r")["deep/er"][:].tolist() == [0, 1, 2]
    assert cw.open_group(tmp_path / "x.n5/empty", "w").implicit is False


def test_a_directory_of_blocks_is_no_group(tmp_path):
    values = np.ones((4, 4), "u1")
    cw.create_group(tmp_path / "x.n5").create_array("a", data=values, chunks=(2, 2))
    cw.create_group(tmp_path / "x.zarr").create_array("a", data=values, chunks=(2, 2))
    for path, options in (("x.n5/a/0", {}), ("x.zarr/a/c", {}), ("x.zarr/a/c", {"format": "zarr3"})):
        with pytest.raises(NotFoundError, match="inside the array"):
            cw.open_group(tmp_path / path, **options)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_a_mere_directory_is_no_group_unless_somebody_says_so(tmp_path, format):
    cw.create_group(tmp_path / "x", format=format).create_array("a", data=[1, 2])
    (tmp_path / "photos/2026").mkdir(parents=True)
    (tmp_path / "photos/2026/a.txt").write_text("x")
    for place in (tmp_path, tmp_path / "photos"):
        for mode in ("r", "r+"):
            with pytest.raises(NotFoundError, match="a directory without metadata"):
                cw.open_group(place, mode)
        with pytest.raises(FileNotFoundError):
            zarr.open_group(str(place), mode="r")
    group = cw.open_group(tmp_path, format=format)
    assert group.implicit and group["x/a"].read().result().tolist() == [1, 2]


def test_reserved_names_are_not_listed(tmp_path, capsys):
    group = cw.create_group(tmp_path / "x", format="zarr3")
    group.create_array("a", data=[1])
    (tmp_path / "x/a").rename(tmp_path / "x/__a")
    group.create_array("_b", data=[1])
    assert group.keys() == ["_b"] and [path for path, _ in group.walk()] == ["_b"]
    assert main(["tree", str(tmp_path / "x")]) == 0
    assert "__a" not in capsys.readouterr().out
    group.consolidate()
    assert cw.open_group(tmp_path / "x").keys() == ["_b"]
    document = json.loads((tmp_path / "x/zarr.json").read_text())
    metadata = document["consolidated_metadata"]["metadata"]
    metadata["__c"] = metadata["_b"]
    (tmp_path / "x/zarr.json").write_text(json.dumps(document))
    assert cw.open_group(tmp_path / "x", consolidated=True).keys() == ["_b"]


@pytest.mark.parametrize("value", ["[]", "[1]", '"text"', "3", "false"])
def test_attributes_of_groups_are_objects(tmp_path, value):
    (tmp_path / "three").mkdir()
    (tmp_path / "three/zarr.json").write_text(f'{{"zarr_format":3,"node_type":"group","attributes":{value}}}')
    with pytest.raises(FailedPreconditionError, match='"attributes": Expected object'):
        cw.open_group(tmp_path / "three")
    cw.create_group(tmp_path / "two", format="zarr2", attributes={"k": 1})
    (tmp_path / "two/.zattrs").write_text(value)
    group = cw.open_group(tmp_path / "two", "r+")
    with pytest.raises(FailedPreconditionError, match="Expected object"):
        dict(group.attrs)
    with pytest.raises(FailedPreconditionError, match="Expected object"):
        group.attrs["k"] = 2
    assert (tmp_path / "two/.zattrs").read_text() == value
