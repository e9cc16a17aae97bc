"""`ZarrIO.file`: what is stored as groups with attributes, and the methods that write one object into it."""

import numpy as np
import pytest
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder, TypeMap
from hdmf.spec import NamespaceCatalog

from chunkwise.hdmf import ZarrDataIO, ZarrIO

FORMATS = ("zarr2", "zarr3", "n5")


@pytest.fixture
def manager():
    return BuildManager(TypeMap(NamespaceCatalog()))


@pytest.mark.parametrize("format", FORMATS)
def test_objects_are_written_one_by_one(tmp_path, manager, format):
    """Groups, datasets, links and attributes go below the group that is given, or its path."""
    path = tmp_path / f"a.{format}"
    io = ZarrIO(str(path), manager=manager, mode="w", format=format)
    io.open()
    root = io.file
    assert (root.name, root.path, len(root), io._file.path) == ("/", "/", 0, "/")
    data = DatasetBuilder("data", np.arange(6).reshape(2, 3), attributes={"unit": "mV"})
    written = io.write_dataset(root, data)
    assert np.array_equal(written[()], np.arange(6).reshape(2, 3))
    assert written.attrs["unit"] == "mV"
    alone = GroupBuilder("g", attributes={"n": 3})
    group = io.write_group(root, alone)
    assert group.path == "/g" and group.attrs["n"] == 3
    io.write_dataset(group, DatasetBuilder("text", ["a", "bc"]))
    io.write_dataset("/g", DatasetBuilder("more", [1.5, 2.5]))
    io.write_link(group, LinkBuilder(data, "to"))
    io.write_attributes(
        group, {"n": 4, "subject": "m7", "at": ReferenceBuilder(data), "own": ReferenceBuilder(alone)}
    )
    root.attrs["version"] = "1.0"
    assert sorted(root) == ["data", "g"] and sorted(group) == ["more", "text"]
    assert "g/text" in root and "nothing" not in root
    with pytest.raises(KeyError, match="nothing"):
        root["nothing"]
    io.write_builder(GroupBuilder("root", attributes={"version": "1.0"}))
    io.close()
    assert io.file is None

    with ZarrIO(str(path), manager=manager, mode="r") as reader:
        root = reader.file
        assert list(root["g/text"][()]) == ["a", "bc"]
        assert root["/g"].attrs["subject"] == "m7" and root.attrs["version"] == "1.0"
        builder = reader.read_builder()
        assert builder["g"].attributes["n"] == 4
        assert builder["g"].attributes["at"] is builder["data"]
        assert builder["g"].attributes["own"] is builder["g"]
        assert builder["g"].links["to"].builder is builder["data"]


def test_attributes_are_replaced_one_by_one(tmp_path, manager):
    """Setting one attribute leaves the others; None, or del, removes it; types that JSON lacks come back."""
    path = str(tmp_path / "a.zarr")
    with ZarrIO(path, manager=manager, mode="w") as io:
        builder = GroupBuilder("root", attributes={"a": np.uint8(1), "b": b"x", "c": "y"})
        io.write_builder(builder)
        io.write_attributes("/", {"a": np.uint16(2)})
        del io.file.attrs["c"]
        with pytest.raises(KeyError):
            del io.file.attrs["c"]
        io.write_group("/", GroupBuilder("g", attributes={"n": 1}))
        io.file["g"].attrs.put({"m": 2})
        assert io.file["g"].attrs.asdict() == {"m": 2}
    with ZarrIO(path, manager=manager, mode="r") as io:
        found = io.read_builder().attributes
        assert found["a"] == 2 and found["a"].dtype == "uint16" and found["b"] == b"x" and "c" not in found


def test_what_is_no_object_of_the_store(tmp_path, manager):
    """A parent of another kind is an error that names it; what is open for reading is not changed."""
    path = str(tmp_path / "a.zarr")
    with ZarrIO(path, manager=manager, mode="w") as io:
        io.write_builder(GroupBuilder("root"))
        with pytest.raises(TypeError, match="expected a path, or a group or dataset of the store, got int"):
            io.write_group(5, GroupBuilder("g"))
    with ZarrIO(path, manager=manager, mode="r") as io:
        with pytest.raises(Exception, match="mode 'r'"):
            io.write_attributes("/", {"a": 1})
        with pytest.raises(Exception, match="mode 'r'"):
            io.file.attrs["a"] = 1


@pytest.mark.parametrize("format", FORMATS)
def test_wrapped_data_that_was_read_is_linked_only_if_asked_for(tmp_path, manager, format):
    """`ZarrDataIO(link_data=...)` decides for its dataset, as hdmf's wrapper of HDF5 does."""
    one, two = str(tmp_path / f"one.{format}"), str(tmp_path / f"two.{format}")
    with ZarrIO(one, manager=manager, mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", np.arange(6))}))
    with ZarrIO(one, manager=manager, mode="r") as source:
        data = source.read_builder()["a"].data
        assert data.shards is None and data.fill_value == 0
        with ZarrIO(two, manager=manager, mode="w", format=format) as io:
            copied = DatasetBuilder("copied", ZarrDataIO(data, link_data=False))
            linked = DatasetBuilder("linked", ZarrDataIO(data, link_data=True))
            io.write_builder(GroupBuilder("root", datasets={"copied": copied, "linked": linked}))
            assert list(io.file) == ["copied"]
    with ZarrIO(two, manager=manager, mode="r") as io:
        root = io.read_builder()
        assert np.array_equal(root["copied"].data[()], np.arange(6))
        assert np.array_equal(root["linked"].builder.data[()], np.arange(6))


@pytest.mark.parametrize("format", FORMATS)
def test_write_dataset_copies_or_links_data_of_the_same_store(tmp_path, manager, format):
    path = str(tmp_path / f"one.{format}")
    with ZarrIO(path, manager=manager, mode="w", format=format) as io:
        data = io.write_dataset(io.file, DatasetBuilder("a", np.arange(6)))
        for name, link in (("copied", False), ("linked", True)):
            found = io.write_dataset(io.file, DatasetBuilder(name, data), link_data=link)
            wrapped = DatasetBuilder(f"{name} too", ZarrDataIO(data, link_data=link))
            again = io.write_dataset(io.file, wrapped)
            assert (found is None) is (again is None) is link
        assert list(io.file) == ["a", "copied", "copied too"]
    with ZarrIO(path, manager=manager, mode="r") as io:
        root = io.read_builder()
        for name in ("copied", "copied too"):
            assert np.array_equal(root[name].data[()], np.arange(6)) and root[name].data != root["a"].data
        for name in ("linked", "linked too"):
            assert root[name].builder is root["a"]
