"""Groups as mappings: the same in every format."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    NodeNotFoundError,
    UnsupportedError,
)


@pytest.fixture
def group(tmp_path, format):
    return cw.create_group(tmp_path / "x", format=format)


def test_nested_paths(group):
    array = group.create_array("a/b/c", data=np.arange(6).reshape(2, 3))
    assert (array.name, array.path) == ("/a/b/c", "a/b/c")
    assert list(group) == ["a"] and list(group["a"]) == ["b"] and len(group["a/b"]) == 1
    assert group["a"]["b/c"].path == "a/b/c"
    assert group["a/b"]["/a"].name == "/a", "from the root"
    assert group["//a//b/"].path == "a/b"
    assert group["a/b"].root.path == "" and group["a/b"].basename == "b"
    assert "a/b/c" in group and "a/x" not in group and "a/b/c/0" not in group and 7 not in group
    assert ".." not in group
    with pytest.raises(KeyError, match="a/x"):
        group["a/x"]
    assert group.get("a/x") is None and group.get("a/x", 5) == 5
    assert group and not list(group.create_group("empty"))


def test_members(group):
    group.create_array("b", shape=(3,), dtype="uint8")
    group.create_group("a").create_array("d", shape=4, dtype="f4")
    assert group.keys() == ["a", "b"]
    assert [name for name, _ in group.groups()] == ["a"]
    assert [name for name, _ in group.arrays()] == ["b"]
    assert [member.name for member in group.values()] == ["/a", "/b"]
    assert [path for path, _ in group.walk()] == ["a", "a/d", "b"]
    assert [path for path, _ in group["a"].walk()] == ["d"]
    assert (
        group.visititems(lambda path, member: path if isinstance(member, cw.TensorStore) else None) == "a/d"
    )
    assert group.visititems(lambda path, member: None) is None
    visited: list[str] = []
    assert group.visit(visited.append) is None and visited == [path for path, _ in group.walk()]
    assert group["a"].parent.path == "" == group.parent.path


def test_arrays_are_lazy_views(group):
    array = group.create_array(
        "a",
        data=np.arange(12, dtype="int32").reshape(3, 4),
        dimension_names=["y", "x"],
        attributes={"k": 1},
        chunks=(2, 2),
    )
    view = group["a"][1:, 2]
    assert view.read().result().tolist() == [6, 10]
    assert view.attrs["k"] == 1 and view.path == "a"
    view[...] = 0
    assert array.read().result().sum() == 66 - 16
    assert array.chunk_layout.read_chunk.shape == (2, 2)
    assert group["a"].with_transaction(cw.Transaction()).attrs["k"] == 1


@pytest.mark.parametrize(
    ("shape", "dtype", "chunks"), [((10_000, 10_000), "u2", (512, 1024)), (100, "u8", (100,))]
)
def test_chunks_by_default(group, shape, dtype, chunks):
    """They hold about a megabyte, and have a similar extent in all dimensions."""
    assert group.create_array("a", shape=shape, dtype=dtype).chunk_layout.read_chunk.shape == chunks


def test_require(group):
    made = group.require_array("a/b", shape=(3,), dtype="int16", fill_value=0)
    made[...] = 7
    assert group.require_array("a/b", shape=(3,), dtype="int16").read().result().tolist() == [7, 7, 7]
    with pytest.raises(ValueError, match="shape"):
        group.require_array("a/b", shape=(4,), dtype="int16")
    with pytest.raises(ValueError, match="int16"):
        group.require_array("a/b", shape=(3,), dtype="uint8")
    group.require_group("g", attributes={"x": 1})
    assert group.require_group("g", attributes={"x": 2}).attrs["x"] == 1
    with pytest.raises(AlreadyExistsError):
        group.require_group("a/b")
    with pytest.raises(ValueError, match="group"):
        group.require_array("a", shape=(3,), dtype="int16")


def test_what_is_there_is_not_overwritten(group):
    group.create_array("a", data=[1, 2])
    group.create_group("g/h")
    for make in (
        lambda: group.create_array("a", data=[3]),
        lambda: group.create_group("a"),
        lambda: group.create_group("g"),
        lambda: group.create_array("a/below", data=[3]),
        lambda: group.create_group("a/below"),
    ):
        with pytest.raises(AlreadyExistsError):
            make()
    assert group["a"].read().result().tolist() == [1, 2]
    group.create_array("a", data=[3], overwrite=True)
    assert group["a"].read().result().tolist() == [3]
    assert list(group.create_group("g", overwrite=True)) == []


def test_an_array_that_cannot_be_leaves_nothing(group):
    with pytest.raises(ValueError):
        group.create_array("z/a", shape=(3,), dtype="int8", fill_value=3, codec="gzip:77")
    assert "z" not in group
    for options in ({"shape": (3,)}, {"dtype": "int8"}, {"shape": 3, "dtype": "nonsense"}):
        with pytest.raises(ValueError):
            group.create_array("b", **options)
    with pytest.raises(ValueError, match="chunks"):
        group.create_array("b", shape=(3,), dtype="int8", chunks=(1, 2))
    with pytest.raises(ValueError, match="root"):
        group.create_array("/", data=[1])
    with pytest.raises(TypeError, match="colour"):
        group.create_array("b", shape=(3,), dtype="int8", colour="red")
    assert "b" not in group


def test_delete_and_move(group):
    group.create_array("a/b", data=[1, 2])
    group.create_group("a-b")
    group.create_group("a.b")
    group["a"].attrs["k"] = 1
    group.move("a", "x/y/z")
    assert [path for path, _ in group.walk()] == ["a-b", "a.b", "x", "x/y", "x/y/z", "x/y/z/b"]
    assert group["x/y/z"].attrs["k"] == 1 and group["x/y/z/b"].read().result().tolist() == [1, 2]
    del group["x/y"]["z/b"]
    assert list(group["x/y/z"]) == []
    del group["x"]
    assert list(group) == ["a-b", "a.b"]
    for change in (
        lambda: group.move("nope", "n"),
        lambda: group.__delitem__("nope"),
    ):
        with pytest.raises(NodeNotFoundError):
            change()
    group.create_group("c/d")
    with pytest.raises(AlreadyExistsError):
        group.move("c", "a-b")
    with pytest.raises(ValueError, match="into itself"):
        group.move("c", "c/d/e")
    for path in ("/", ""):
        with pytest.raises(ValueError, match="root"):
            del group[path]
        with pytest.raises(ValueError, match="root"):
            group.move(path, "n")


def test_move_where_nothing_can_be_renamed(format):
    store = TraceStore(MemoryStore())
    group = cw.create_group(store, format=format)
    group.create_array("a/b", data=np.arange(100), chunks=(10,))
    group.move("a", "c")
    assert group["c/b"].read().result().tolist() == list(range(100)) and "a" not in group
    assert not any(key.startswith("a/") for key in store.list())
    del group["c"]
    assert list(group) == []


@pytest.mark.parametrize("store", ["files", "memory", "where nothing can be renamed"])
def test_nothing_is_moved_into_itself_by_a_link(tmp_path, format, store):
    place = {"files": tmp_path / "x", "memory": MemoryStore()}.get(store, TraceStore(MemoryStore()))
    group = cw.create_group(place, format=format)
    group.create_array("real/a/b", data=np.arange(10), chunks=(5,))
    group.create_link("link", "/real")
    group.create_link("here", "/real/a")
    within = [f"{path}{below}" for path in ("real/a", "link/a", "here", "real/a/b") for below in ("", "/n")]
    moves = [(source, target) for source in ("real/a", "link/a") for target in within]
    before = [(path, member.__class__) for path, member in group.walk()]
    for source, target in [*moves, ("here/b", "link/a/b"), ("here/b", "link/a/b/n"), ("link", "link/n")]:
        with pytest.raises(ChunkwiseError):
            group.move(source, target)
        assert [(path, member.__class__) for path, member in group.walk()] == before
        assert group["real/a/b"].read().result().tolist() == list(range(10)), (source, target)


def test_modes(tmp_path, format):
    path = tmp_path / "x"
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError):
            cw.open_group(path, mode)
    cw.open_group(path, "w-", format=format, attributes={"a": 1}).create_array("b", data=[1])
    with pytest.raises(FileExistsError):
        cw.open_group(path, "w-", format=format)
    group = cw.open_group(path)
    assert group.attrs["a"] == 1 and group.mode == "r" and group.format == format
    for change in (
        lambda: group.create_group("c"),
        lambda: group.create_array("c", data=[1]),
        lambda: group.require_group("c"),
        lambda: group.__delitem__("b"),
        lambda: group.move("b", "c"),
        lambda: group.attrs.update(a=2),
        lambda: group["b"].attrs.update(a=2),
        lambda: group["b"].write(3).result(),
        lambda: group.create_link("c", "b"),
        lambda: group.copy("b", "c"),
    ):
        with pytest.raises(ValueError, match=r'mode "r"|not support writing'):
            change()
    cw.open_group(path, "r+").attrs["a"] = 2
    assert cw.open_group(path, "a", format=format, attributes={"a": 5}).attrs["a"] == 2
    group = cw.open_group(path, "w", format=format, attributes={"new": 1})
    assert group.attrs == {"new": 1} and list(group) == []
    with pytest.raises(ValueError, match="mode"):
        cw.open_group(path, "x")
    with pytest.raises(ValueError, match="format"):
        cw.open_group(path, format="hdf5")
    with pytest.raises(ValueError, match="zarr1"):
        cw.open_group(path, "w", format="zarr1")


def test_a_directory_of_something_else_is_not_emptied(tmp_path):
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "a.jpg").write_bytes(b"x")
    with pytest.raises(AlreadyExistsError, match="belong to no array or group"):
        cw.create_group(tmp_path / "photos")
    cw.open_group(tmp_path / "photos", "w")
    assert (tmp_path / "photos" / "2024" / "a.jpg").exists()
    cw.create_array(tmp_path / "results" / "a.zarr", [1])
    with pytest.raises(FailedPreconditionError, match="neither group nor array"):
        cw.open_group(tmp_path / "results", "w")
    assert cw.read(tmp_path / "results" / "a.zarr").tolist() == [1]


def test_an_array_is_no_group(tmp_path, format):
    cw.create_group(tmp_path / "x", format=format).create_array("a", data=[1])
    with pytest.raises(ValueError, match="is an array"):
        cw.open_group(tmp_path / "x" / "a")


def test_the_name_says_the_format(tmp_path):
    assert cw.create_group(tmp_path / "a.n5").format == "n5"
    assert cw.create_group(tmp_path / "a.zarr").format == "zarr3"
    assert json.loads((tmp_path / "a.n5" / "attributes.json").read_text()) == {"n5": "2.0.0"}


@pytest.mark.parametrize("path", ["..", "a/../b", ".", "a\\b", "a\0b", "a/./b"])
def test_paths_that_lead_elsewhere(group, path):
    for act in (
        lambda: group[path],
        lambda: group.create_group(path),
        lambda: group.create_array(path, data=[1]),
        lambda: group.move(path, "x"),
        lambda: group.__delitem__(path),
    ):
        with pytest.raises(ValueError, match="can't be the path of a node"):
            act()
    assert path not in group


def test_reserved_names(tmp_path):
    refused = {
        "zarr3": ["zarr.json", "__x", "...", ".zattrs", "attributes.json", "a.__lock", "tab\there"],
        "zarr2": [".zfoo", ".zarray", "zarr.json", "attributes.json", "a.__lock"],
        "n5": ["attributes.json", "zarr.json", "a.__lock"],
    }
    taken = {
        "zarr3": ["x__", ".hidden", "meta", "attrs", "é", "a b", "0"],
        "zarr2": ["__x", "meta"],
        "n5": ["__x", "c"],
    }
    for format, names in refused.items():
        group = cw.create_group(tmp_path / format, format=format)
        for name in names:
            with pytest.raises(ValueError, match="can't be the name"):
                group.create_group(name)
            with pytest.raises(ValueError, match="can't be the name"):
                group.create_array(f"a/{name}", data=[1])
        for name in taken[format]:
            group.create_group(name)
        assert sorted(group) == sorted(taken[format])
        assert all(name in group for name in taken[format])


def test_zarr2_and_zarr3_side_by_side(tmp_path):
    group = cw.create_group(tmp_path / "x", format="zarr3")
    for format in ("zarr3", "zarr2", "zarr1"):
        group.create_array(format, data=[1, 2], format=format, attributes={"f": format})
    cw.create_group(tmp_path / "x" / "old", format="zarr2").create_array("a", data=[3])
    assert group["old"].format == "zarr2" and group["old/a"].read().result().tolist() == [3]
    for format in ("zarr3", "zarr2", "zarr1"):
        assert group[format].read().result().tolist() == [1, 2]
        assert group[format].attrs == {"f": format}
    with pytest.raises(AlreadyExistsError, match=r"a group already \(zarr3\)"):
        cw.create_group(tmp_path / "x", format="zarr2")
    with pytest.raises(AlreadyExistsError, match=r"a group already \(zarr3\)"):
        cw.open_group(tmp_path / "x", "a", format="zarr2")
    # Both in the same place, by other software: what is asked for is opened, and a group prefers its own.
    (tmp_path / "x" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "x" / ".zattrs").write_text('{"v": 2}')
    assert cw.open_group(tmp_path / "x", format="zarr2").attrs == {"v": 2}
    assert cw.open_group(tmp_path / "x", format="zarr3").attrs == {}
    assert cw.open_group(tmp_path / "x").format == "zarr3"
    with pytest.raises(FileNotFoundError):
        cw.open_group(tmp_path / "x", format="n5")


def test_implicit_groups(tmp_path):
    store = FileStore(tmp_path / "n5")
    store.write("attributes.json", b'{"n5": "2.0.0"}')
    (tmp_path / "n5" / "empty" / "er").mkdir(parents=True)
    group = cw.open_group(tmp_path / "n5", "r+")
    assert group["empty"].implicit and list(group["empty"]) == ["er"] and "empty/er" in group
    assert [path for path, _ in group.walk()] == ["empty", "empty/er"]
    group["empty/er"].attrs["k"] = 1
    assert not group["empty/er"].implicit and group["empty/er"].attrs == {"k": 1}
    for format in ("zarr3", "zarr2"):
        group = cw.create_group(tmp_path / format, format=format)
        (tmp_path / format / "stray" / "x").mkdir(parents=True)
        cw.create_group(tmp_path / format / "b" / "c", format=format)
        (tmp_path / format / "b" / ("zarr.json" if format == "zarr3" else ".zgroup")).unlink()
        assert group["b"].implicit and [path for path, _ in group.walk()] == ["b", "b/c"]
        with pytest.raises(FailedPreconditionError, match="without metadata"):
            group["b"].attrs["k"] = 1
        group.require_group("b").attrs["k"] = 1
        assert not group["b"].implicit and "c" in group["b"]


def test_documents_that_must_be_understood(tmp_path):
    store = FileStore(tmp_path / "x")

    def put(**members):
        document = {"zarr_format": 3, "node_type": "group", "attributes": {}, **members}
        store.write("zarr.json", json.dumps(document).encode())

    put(extra={"must_understand": False, "x": 1})
    cw.open_group(tmp_path / "x", "r+").attrs["a"] = 1
    assert json.loads(bytes(store.read("zarr.json").value))["extra"] == {"must_understand": False, "x": 1}
    for value in ({"x": 1}, {"must_understand": True}, 7):
        put(extra=value)
        with pytest.raises(UnsupportedError, match='"extra"'):
            cw.open_group(tmp_path / "x")
    put(zarr_format=4)
    with pytest.raises(FailedPreconditionError, match="zarr_format"):
        cw.open_group(tmp_path / "x")
    put(node_type="folder")
    with pytest.raises(FailedPreconditionError, match="node_type"):
        cw.open_group(tmp_path / "x")
    store.write("zarr.json", b"{")
    with pytest.raises(FailedPreconditionError, match="JSON"):
        cw.open_group(tmp_path / "x")
    FileStore(tmp_path / "y").write(".zgroup", b'{"zarr_format": 7}')
    with pytest.raises(FailedPreconditionError, match="zarr_format"):
        cw.open_group(tmp_path / "y")


def test_n5_versions(tmp_path):
    for version, fits in (("4.1.0", True), ("2.0.0", True), (None, True), ("abc", True), ("5.0.0", False)):
        store = FileStore(tmp_path / "x.n5")
        store.write("attributes.json", json.dumps({"n5": version, "a": 1}).encode())
        store.write("g/attributes.json", b"{}")
        if fits:
            group = cw.open_group(tmp_path / "x.n5", "r+")
            group.create_group("h", overwrite=True)
            assert group.attrs == {"a": 1} and "n5" not in group.attrs
            assert json.loads(bytes(store.read("attributes.json").value))["n5"] == version
        else:
            for path in ("x.n5", "x.n5/g"):
                for mode in ("r", "a"):
                    with pytest.raises(UnsupportedError, match=r"5\.0\.0"):
                        cw.open_group(tmp_path / path, mode)


def test_a_container_that_is_a_dataset(tmp_path):
    cw.create_container(tmp_path / "x.n5")
    array = cw.open(str(tmp_path / "x.n5") + "|n5", create=True, dtype="uint8", shape=[4]).result()
    array[...] = 5
    FileStore(tmp_path / "x.n5").write("g/attributes.json", b"{}")  # another library's
    group = cw.open_group(tmp_path / "x.n5")
    assert list(group) == ["g"] and group["/"].path == ""
    with pytest.raises(ValueError, match="an array, not a group"):
        cw.open_group(tmp_path / "x.n5", "r+")
    assert cw.open_n5_uri(f"n5://{tmp_path}/x.n5").read().result().tolist() == [5] * 4


def test_places(tmp_path, format):
    cw.create_group(tmp_path / "x", format=format).create_array("a", data=[1, 2])
    context = cw.Context()
    memory = {"driver": "memory", "path": "deep/er/"}
    cw.create_group(memory, format=format, context=context).create_array("a", data=[1, 2])
    kvstore = cw.KvStore.open({"driver": "file", "path": f"{tmp_path}/x/"}).result()
    for place in (
        str(tmp_path / "x"),
        f"{tmp_path}/x/",
        f"file://{tmp_path}/x/",
        {"driver": "file", "path": f"{tmp_path}/x"},
        kvstore,
        kvstore.spec(),
        memory,
        cw.KvStore.open(memory, context=context).result(),
    ):
        array = cw.open_group(place, context=context)["a"]
        assert array.read().result().tolist() == [1, 2]
        assert array.kvstore.path.endswith("a/")
    with pytest.raises(TypeError, match="int"):
        cw.open_group(7)
    with pytest.raises(ValueError, match="empty"):
        cw.open_group("")
    with pytest.raises(NotImplementedError, match="transaction"):
        cw.open_group(kvstore.with_transaction(cw.Transaction()))


def test_looks(group):
    group.create_array("a/<b>", data=np.zeros((2, 3), "uint16"), attributes={"unit": "<nm>"})
    group.attrs["title"] = "x" * 100
    group.create_link("l", "/a")
    text = str(group.tree(attributes=True))
    assert text.splitlines()[0].split() == ["/", group.format, "group"]
    assert ("└── <b>" in text and "uint16" in text) or "<u2" in text
    assert "(2, 3)" in text and '@unit = "<nm>"' in text and "l" in text and "-> /a" in text and "xx…" in text
    page = group.tree(attributes=True)._repr_html_()
    assert "&lt;b&gt;" in page and "&lt;nm&gt;" in page and page.count("<details") == page.count("</details>")
    assert page.count("<ul>") == page.count("</ul>") and page.count("<li>") == page.count("</li>")
    assert "mode 'r+'" in repr(group) and "a" in repr(group)
    assert "<details" in group._repr_html_()


def test_arrays_that_nobody_understands_are_shown(tmp_path):
    group = cw.create_group(tmp_path / "x")
    group.create_array("a", data=[1])
    document = json.loads((tmp_path / "x" / "a" / "zarr.json").read_text())
    document["codecs"] = [{"name": "bytes"}, {"name": "future"}]
    (tmp_path / "x" / "a" / "zarr.json").write_text(json.dumps(document))
    assert "future" in str(group.tree()) and "future" in repr(group)
    with pytest.raises(FailedPreconditionError, match="future"):
        group["a"]
    (tmp_path / "x" / "a" / "zarr.json").write_text("{")
    assert "can't be read" in str(group.tree())


def test_stores_that_cannot_list(tmp_path):
    """As a web server: what has a document is found, and what has none is missing."""

    class Unlistable(TraceStore):
        def list_children(self, prefix):
            raise UnsupportedError("no listing")

        def list(self, start="", stop=""):
            raise UnsupportedError("no listing")

    base = MemoryStore()
    cw.create_group(base).create_array("a/b", data=[1, 2])
    group = cw.open_group(Unlistable(base))
    assert group["a/b"].read().result().tolist() == [1, 2] and "a/c" not in group
    with pytest.raises(KeyError):
        group["nope"]
    with pytest.raises(UnsupportedError, match="no listing"):
        group.keys()
    cw.open_group(base, "r+").consolidate()
    assert cw.open_group(Unlistable(base))["a"].keys() == ["b"]
